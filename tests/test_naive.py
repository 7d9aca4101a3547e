"""The oracle itself: against examples worked by hand and against both references, since all else leans on it."""

import random

import pytest

import naive
import small
import texts


@pytest.mark.parametrize(
    ("text", "pretokens"),
    [
        ("", []),
        ("Hello world", ["Hello", " world"]),
        ("I'll take  two\n\n", ["I", "'ll", " take", " ", " two", "\n\n"]),
        (" 's", [" '", "s"]),
        ("''s", ["''", "s"]),
        ("a\n b", ["a", "\n", " b"]),
        ("a \nb", ["a", " ", "\n", "b"]),
        ("a\u3000\u3000b", ["a", "\u3000", "\u3000", "b"]),
        ("x1½ ٣!", ["x", "1½", " ٣", "!"]),
    ],
)
def test_splitting_by_hand(text: str, pretokens: list[str]) -> None:
    """Pretokens as one finds them with pattern and pencil."""
    assert naive.split(text) == pretokens


def test_merging_by_hand() -> None:
    """The lowest rank first, the leftmost of equals first, by either kind of rank."""
    by_list = naive.rank_of_merges([(b"a", b"a"), (b"aa", b"a"), (b"a", b"b")])
    assert naive.merge(b"aaaab", by_list) == [b"aa", b"aa", b"b"]
    assert naive.merge(b"aaab", by_list) == [b"aaa", b"b"]
    by_concatenation = naive.rank_of_concatenation({b"ab": 5, b"bc": 4, b"abc": 6})
    assert naive.merge(b"abc", by_concatenation) == [b"abc"]
    assert naive.merge(b"abab", by_concatenation) == [b"ab", b"ab"]


def test_the_last_rank_of_a_repeated_merge_counts() -> None:
    """A pair that stands twice in a merge list has its later rank."""
    repeated = naive.rank_of_merges([(b"a", b"b"), (b"b", b"c"), (b"a", b"b")])
    assert naive.merge(b"abc", repeated) == [b"a", b"bc"]


def test_oracle_equals_references(tiktoken_small, tokenizers_small, naive_ranks, naive_merges) -> None:
    """Random text of every script, by ranks as tiktoken and by merges as Hugging Face."""
    rng = random.Random(1)
    for text in [*texts.ADVERSARIAL, *(texts.random_text(rng, 200) for _ in range(200)), small.TEXT]:
        assert naive_ranks.encode(text) == tiktoken_small.encode(text, allowed_special="all"), repr(text)
        assert naive_merges.encode(text) == tokenizers_small.encode(text).ids, repr(text)
