"""Truncation with stride and overflow, pairs, and texts given as words, against ``tokenizers``."""

import json
import random

import numpy as np
import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers.processors import TemplateProcessing

import numbatok
import small
import vocabularies
from numbatok import Tokenizer
from numbatok.parts import Parts
from test_templates import TEMPLATES, TOKENS, pieces
from texts import random_text, well_formed

words = st.sampled_from(["a", "hello", "world", " the", "", "other", "中国人", "x<|endoftext|>y", "é", "1000", " "])
texts = st.lists(words, max_size=12).map("".join)
directions = st.sampled_from(["left", "right"])
strategies = st.sampled_from(["longest_first", "only_first", "only_second"])


@pytest.fixture(scope="module", params=TEMPLATES)
def both(request: pytest.FixtureRequest) -> tuple[Tokenizer, tokenizers.Tokenizer]:
    """Ours with a template, and the reference with it."""
    single, pair = TEMPLATES[request.param]
    base = small.by_merges()._parts
    template = numbatok.templates.Template(pieces(single), pieces(pair))
    reference = tokenizers.Tokenizer.from_str(json.dumps(small.tokenizer_json()))
    specials = [{"id": name, "ids": list(ids), "tokens": [name] * len(ids)} for name, ids in TOKENS.items()]
    reference.post_processor = TemplateProcessing(single=single, pair=pair, special_tokens=specials)
    return Tokenizer(Parts(base.vocabulary, base.added_tokens, base.rule, template=template)), reference


def rows_of(encoding: tokenizers.Encoding) -> list[tokenizers.Encoding]:
    """The reference's rows: the first, and what overflows."""
    return [encoding, *encoding.overflowing]


@settings(max_examples=150)
@given(
    st.lists(st.tuples(texts, texts), min_size=1, max_size=3),
    st.booleans(),
    st.integers(6, 30),
    st.integers(0, 5),
    strategies,
    directions,
    st.booleans(),
)
def test_windows(
    both, rows, paired: bool, most: int, stride: int, strategy: str, direction: str, special: bool
) -> None:
    """Ids, type ids and owners of all windows; where ours refuses, the reference fails too, or panics."""
    ours, reference = both
    if strategy == "only_second" and not paired:
        strategy = "only_first"
    arguments = {"stride": stride, "strategy": strategy, "direction": direction}
    firsts, seconds = [first for first, _ in rows], [second for _, second in rows] if paired else None
    try:
        windows = ours.encode_windows(firsts, seconds, max_length=most, add_special_tokens=special, **arguments)
    except ValueError:
        windows = None
    try:
        reference.enable_truncation(most, **arguments)
        given_rows = [pair if paired else pair[:1] for pair in rows]
        wanted = [reference.encode(*row, add_special_tokens=special) for row in given_rows]
    except BaseException as error:  # as Rust's panics are
        # The reference refuses a stride by the special tokens of single texts, whether they are used or not.
        if isinstance(error, KeyboardInterrupt) or not (windows is None or "stride" in str(error)):
            raise
        return
    finally:
        reference.no_truncation()
    if windows is None:  # a window of no ids, or a stride that is too large though nothing is cut
        assert stride >= most - 8
        return
    assert windows.batch.tolist() == [row.ids for encoding in wanted for row in rows_of(encoding)]
    assert windows.batch.type_ids.tolist() == [kind for e in wanted for row in rows_of(e) for kind in row.type_ids]
    assert windows.owners.tolist() == [i for i, encoding in enumerate(wanted) for _ in rows_of(encoding)]
    assert windows.words is None
    first = ours.encode_windows(
        firsts, seconds, max_length=most, add_special_tokens=special, overflow=False, **arguments
    )
    assert first.batch.tolist() == [encoding.ids for encoding in wanted]
    assert first.owners.tolist() == list(range(len(rows)))


PAIR = {"sep": ["</s>", 2], "cls": ["<s>", 0]}
ROBERTA = {"type": "RobertaProcessing", **PAIR, "trim_offsets": True, "add_prefix_space": True}
BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}


@pytest.mark.parametrize(
    "processor",
    [
        ROBERTA,
        {"type": "Sequence", "processors": [BYTE_LEVEL, ROBERTA]},
        {"type": "BertProcessing", **PAIR},
        BYTE_LEVEL,
        None,
    ],
    ids=["roberta", "roberta in a sequence", "bert", "byte-level", "none"],
)
@settings(max_examples=40)
@given(texts, texts, st.integers(6, 30), st.integers(0, 2), strategies, directions, st.booleans())
def test_types_of_windows(
    processor, text: str, second: str, most: int, stride: int, strategy: str, direction: str, special: bool
) -> None:
    """With RobertaProcessing all are 0, but without special tokens the further windows of a second text have type 1."""
    content = json.dumps({**small.tokenizer_json(), "post_processor": processor})
    ours, reference = Tokenizer.from_str(content), tokenizers.Tokenizer.from_str(content)
    arguments = {"stride": stride, "strategy": strategy, "direction": direction}
    try:
        windows = ours.encode_windows([text], [second], max_length=most, add_special_tokens=special, **arguments)
    except ValueError:
        return  # see test_windows
    reference.enable_truncation(most, **arguments)
    wanted = rows_of(reference.encode(text, second, add_special_tokens=special))
    assert windows.batch.tolist() == [row.ids for row in wanted]
    assert windows.batch.type_ids.tolist() == [kind for row in wanted for kind in row.type_ids]


@settings(max_examples=100)
@given(
    st.lists(st.tuples(st.lists(words, max_size=8), st.lists(words, max_size=8)), max_size=3),
    st.booleans(),
    st.booleans(),
)
def test_words(both, documents, paired: bool, special: bool) -> None:
    """Ids and word indices of texts that come as words."""
    ours, reference = both
    firsts, seconds = [first for first, _ in documents], [second for _, second in documents] if paired else None
    rows = ours.encode_words(firsts, seconds, add_special_tokens=special)
    given_rows = [pair if paired else pair[:1] for pair in documents]
    wanted = [reference.encode(*row, is_pretokenized=True, add_special_tokens=special) for row in given_rows]
    assert rows.batch.tolist() == [encoding.ids for encoding in wanted]
    assert rows.batch.type_ids.tolist() == [kind for encoding in wanted for kind in encoding.type_ids]
    assert rows.words.tolist() == [-1 if word is None else word for encoding in wanted for word in encoding.word_ids]
    assert rows.words.dtype == "int32"


def test_words_in_arrays(small_ranks) -> None:
    """Rows of words can be arrays of NumPy, which a list adds to itself item by item."""
    rows = [["a", "b"], ["c", "d"]]
    arrays = [rows[0], np.array(rows[1])]
    assert small_ranks.encode_words(arrays).batch == small_ranks.encode_words(rows).batch
    assert small_ranks.encode_words(np.array(rows), np.array(rows, object)).batch.tolist() == [
        first + second for first, second in zip(*2 * [small_ranks.encode_words(rows).batch.tolist()], strict=True)
    ]


def test_words_in_windows(both) -> None:
    """Windows of words know their words."""
    ours, reference = both
    document, second = ["hello", " world", "other", " the"] * 3, ["the", " other"]
    rows = ours.encode_words([document], [second], max_length=16, stride=2, overflow=True, strategy="only_first")
    reference.enable_truncation(16, stride=2, strategy="only_first")
    wanted = rows_of(reference.encode(document, second, is_pretokenized=True))
    reference.no_truncation()
    assert rows.batch.tolist() == [row.ids for row in wanted]
    assert rows.words.tolist() == [-1 if word is None else word for row in wanted for word in row.word_ids]


JSON_ROWS = [row for row in vocabularies.ROWS if row.kind == "tokenizer.json" and not row.refused]


@pytest.mark.parametrize("row", JSON_ROWS, ids=lambda row: row.name)
def test_real_vocabularies(row: vocabularies.Row) -> None:
    """Words and windows with the normalizers, prefixes and templates of real files."""
    ours, reference = row.tokenizer(), row.reference()._tokenizer
    text = "It's the  naïve Über-test, 中国人 and 1000 more 🎉!\n It ends here" * 2
    document = [*text.split(" "), *list(ours.special_tokens)[:2]]
    rows = ours.encode_words([document, ["x"]], [["y z"], []])
    wanted = [reference.encode(*pair, is_pretokenized=True) for pair in ((document, ["y z"]), (["x"], []))]
    assert rows.batch.tolist() == [encoding.ids for encoding in wanted]
    assert rows.words.tolist() == [-1 if word is None else word for encoding in wanted for word in encoding.word_ids]
    for pair in ((text,), (text, text[10:70])):
        reference.enable_truncation(20, stride=3)
        encodings = rows_of(reference.encode(*pair))
        reference.no_truncation()
        windows = ours.encode_windows(*([part] for part in pair), max_length=20, stride=3)
        assert windows.batch.tolist() == [encoding.ids for encoding in encodings]


@given(st.lists(well_formed, max_size=4), st.integers(3, 20), directions)
def test_windows_cover_the_ids(small_ranks, given_texts: list[str], most: int, direction: str) -> None:
    """By definition: each window begins ``most - stride`` after the one before, from the one end or the other."""
    rows = small_ranks.encode_windows(given_texts, max_length=most, stride=2, direction=direction)
    for number, text in enumerate(given_texts):
        ids = small_ranks.encode(text).tolist()
        if direction == "left":
            ids.reverse()
        windows = [ids[i : i + most] for i in range(0, max(len(ids) - 2, 1), most - 2)]
        found = [rows.batch[i].tolist() for i in range(len(rows.batch)) if rows.owners[i] == number]
        assert found == [window[::-1] if direction == "left" else window for window in windows]


def test_errors(small_ranks) -> None:
    """What is wrong, and with which text."""
    template = numbatok.templates.Template(pieces("<s>:0 $A:0 </s>:0"), pieces("<s>:0 $A:0 $B:0 </s>:0"))
    base = small.by_merges()._parts
    framed = Tokenizer(Parts(base.vocabulary, base.added_tokens, base.rule, template=template))
    cut = framed.encode_windows
    with pytest.raises(ValueError, match="max_length is 1, and the template alone puts 2 special tokens"):
        cut(["a"], max_length=1)
    with pytest.raises(
        ValueError, match="stride must be smaller than max_length, less the template's 2 special tokens"
    ):
        cut(["a"], max_length=5, stride=3)
    with pytest.raises(ValueError, match="which leaves 0, not 0"):
        cut(["a"], max_length=2)
    assert cut(["a b c"], max_length=2, overflow=False).batch.tolist() == [[1, 2]]
    with pytest.raises(ValueError, match='strategy "only_second" cuts the second texts of pairs'):
        cut(["a"], max_length=4, strategy="only_second")
    with pytest.raises(ValueError, match="strategy must be"):
        cut(["a"], max_length=4, strategy="longest")
    with pytest.raises(ValueError, match="direction must be"):
        cut(["a"], max_length=4, direction="up")
    with pytest.raises(ValueError, match="pair at index 1 has 8 ids, 6 more than 2, and its second text"):
        cut(["a", "abcdXYZ"], ["b", "c"], max_length=4, strategy="only_second")
    with pytest.raises(ValueError, match="the stride is 2, and of the text at index 0 a row holds 2 ids"):
        cut(["XYZXYZ"], ["XYZXYZ"], max_length=6, stride=2)
    with pytest.raises(ValueError, match="2 texts are given with 1 pairs"):
        cut(["a", "b"], ["c"], max_length=9)
    with pytest.raises(ValueError, match="character 1 of the pair's second text at index 1 of the batch"):
        cut(["a", "b"], ["c", "d<|endoftext|>"], max_length=9, allowed_special=(), disallowed_special="all")


def test_errors_of_words(small_ranks) -> None:
    """Documents are sequences of words."""
    split = small_ranks.encode_words
    with pytest.raises(
        TypeError, match="documents must be an iterable of documents, each a sequence of words, not 'ab'"
    ):
        split("ab")
    with pytest.raises(TypeError, match="documents must hold sequences of words, not 'ab' at index 1"):
        split([["a"], "ab"])
    with pytest.raises(TypeError, match="a word must be a str, not int at index 1 of the document at index 0"):
        split([["a", 3]])
    with pytest.raises(TypeError, match="documents must be an iterable of documents"):
        split(3)
    with pytest.raises(ValueError, match="2 documents are given with 1 pairs"):
        split([["a"], ["b"]], [["c"]])
    with pytest.raises(ValueError, match="at character 0 of the word at index 1 of the second document at index 0"):
        split([["a"]], [["b", "<|endoftext|>"]], allowed_special=(), disallowed_special="all")
    assert split([]).batch.tolist() == []
    assert split([[], [""]]).batch.tolist() == [[], []]


def test_large(gpt2, tokenizers_gpt2) -> None:
    """Hundreds of windows of one text."""
    text = random_text(random.Random(3), 20_000)
    tokenizers_gpt2.enable_truncation(64, stride=16)
    wanted = [row.ids for row in rows_of(tokenizers_gpt2.encode(text))]
    tokenizers_gpt2.no_truncation()
    windows = gpt2.encode_windows([text, "x"], max_length=64, stride=16)
    assert windows.batch.tolist() == [*wanted, [87]]
