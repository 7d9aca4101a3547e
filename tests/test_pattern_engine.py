"""Tokenizers whose split rule no automaton can run: refused, or run by ``regex`` where the caller allows it."""

import pickle

import pytest
import tiktoken

import small
from numbatok import Tokenizer, VocabularyError

PATTERN = r"(?<=a)b|\w+|(\W)\1?"
SPECIAL = {"<x>": 60_000}
TEXTS = ["", "ab hello  world <x>!! abc", "é中  --<x>", "  " * 5_000 + "ab" * 5_000, "a\nb\r\n"]


@pytest.fixture(scope="module")
def by_regex() -> Tokenizer:
    """The small vocabulary with a pattern that looks behind."""
    with pytest.warns(RuntimeWarning, match="look-behind is not supported"):
        return Tokenizer.from_tiktoken(small.ID_OF, pattern=PATTERN, special_tokens=SPECIAL, pattern_engine="regex")


def test_ids(by_regex: Tokenizer) -> None:
    """As the reference's, one by one, in a batch and counted; special tokens cut the text first."""
    reference = tiktoken.Encoding("x", pat_str=PATTERN, mergeable_ranks=small.ID_OF, special_tokens=SPECIAL)
    wanted = [reference.encode(text, allowed_special="all") for text in TEXTS]
    assert [by_regex.encode(text).tolist() for text in TEXTS] == wanted
    assert by_regex.encode_batch(TEXTS).tolist() == wanted
    assert by_regex.count_batch(TEXTS).tolist() == [len(ids) for ids in wanted]
    assert [by_regex.decode(ids) for ids in wanted] == TEXTS
    ordinary = [reference.encode_ordinary(text) for text in TEXTS]
    assert by_regex.encode_batch(TEXTS, allowed_special=()).tolist() == ordinary


def test_pretokenize(by_regex: Tokenizer) -> None:
    """Where the pattern cuts, in bytes."""
    assert by_regex.pretokenize("é ab  c").tolist() == [0, 2, 3, 5, 7, 8]
    assert by_regex.pretokenize("").tolist() == [0]


def test_refused_unless_asked_for() -> None:
    """The error names what is not supported, and what would run it."""
    with pytest.raises(VocabularyError, match=r'look-behind is not supported.*pattern_engine="regex" may run it'):
        Tokenizer.from_tiktoken(small.ID_OF, pattern=PATTERN)
    with pytest.raises(ValueError, match='must be "automaton" or "regex", not \'re\''):
        Tokenizer.from_tiktoken(small.ID_OF, pattern=r".", pattern_engine="re")
    with pytest.raises(VocabularyError):
        Tokenizer.from_tiktoken(small.ID_OF, pattern="(", pattern_engine="regex")


def test_an_automaton_is_preferred(recwarn: pytest.WarningsRecorder) -> None:
    """Where one can run the rule it does, and the tokenizers are equal."""
    allowed = Tokenizer.from_tiktoken(small.ID_OF, pattern=r"\w+|\W", pattern_engine="regex")
    assert allowed == Tokenizer.from_tiktoken(small.ID_OF, pattern=r"\w+|\W")
    assert not recwarn.list


def test_pickle(by_regex: Tokenizer) -> None:
    """With the rule and the leave to run it."""
    again = pickle.loads(pickle.dumps(by_regex))
    assert again == by_regex
    assert again.encode("ab").tolist() == by_regex.encode("ab").tolist()
