"""Pretokens that are cut between characters which no token spans: the ids are those of the whole."""

import random

import numpy as np
import pytest
import tiktoken

from numbatok import Tokenizer, get_encoding
from numbatok.added_tokens import AddedTokens
from numbatok.kernels import dtypes
from numbatok.parts import Parts
from numbatok.patterns.rules import Split
from numbatok.vocabulary import Vocabulary

CHARACTERS = "中文字符漢語日本の、。ひらがなカタカナ一龥\u3000\u9fff\u2fff\ua000한é😀a 1"
PATTERN = r"\p{L}+|\P{L}+"


def vocabulary(rng: random.Random, count: int) -> list[bytes]:
    """All bytes and random runs of bytes of such text, which begin and end anywhere in a character."""
    tokens = {bytes([byte]): None for byte in range(256)}
    while len(tokens) < 256 + count:
        data = "".join(rng.choices(CHARACTERS, k=4)).encode()
        begin = rng.randrange(len(data) - 1)
        tokens[data[begin : begin + rng.randint(2, 7)]] = None
    return list(tokens)


def loaded(tokens: list[bytes], pattern: str = PATTERN) -> Tokenizer:
    """A tokenizer of these ranks."""
    return Tokenizer(Parts(Vocabulary.from_ranks(tokens), AddedTokens([]), (Split(pattern),)))


@pytest.mark.parametrize("seed", range(12))
def test_ids(seed: int) -> None:
    """With tokens that span characters whole and in part, as the reference's, wherever the text is cut."""
    rng = random.Random(seed)
    tokens = vocabulary(rng, rng.choice([0, 5, 60, 600]))
    ours = loaded(tokens)
    reference = tiktoken.Encoding(
        "x", pat_str=PATTERN, mergeable_ranks={token: i for i, token in enumerate(tokens)}, special_tokens={}
    )
    for length in [*range(70), 200, 3_000, 9_000]:
        text = "".join(rng.choices(CHARACTERS[: rng.choice([4, 12, 30])], k=length))
        assert ours.encode(text).tolist() == reference.encode_ordinary(text)
        assert ours.count(text) == len(reference.encode_ordinary(text))


def test_with_and_without() -> None:
    """A real vocabulary, over the ends of blocks and chunks."""
    whole, cut = get_encoding("gpt2"), get_encoding("gpt2")
    whole.encode("x")
    whole._engine._view[dtypes.VIEW_CUTTER] = 0
    for text in ("中文" * 40_000, "a" + "漢字。" * 3_000, *("x" * n + "中、の" * 30 for n in range(64))):
        assert np.array_equal(cut.encode(text), whole.encode(text))


def test_pretokenize_is_the_split_rule(gpt2) -> None:
    """The cuts are no pretokens."""
    assert gpt2.pretokenize("中文字符 a").tolist() == [0, 12, 14]


def test_pieces_are_cut(gpt2) -> None:
    """New clauses are made of known parts: no pretoken is missed twice."""
    tokenizer = gpt2.with_dropout(0)  # another one, with a cache of its own
    tokenizer.encode("中文字符漢語日本")
    with tokenizer._engine.scratch() as scratch:
        misses = int(scratch.record[dtypes.WORK_MISSES])
    tokenizer.encode("文中符字語漢本日" * 50)
    with tokenizer._engine.scratch() as scratch:
        assert int(scratch.record[dtypes.WORK_MISSES]) - misses <= 1
