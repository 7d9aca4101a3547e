"""Parts of texts as new ones: as CPython would slice them, in every width that it keeps characters in."""

import random
from itertools import pairwise

import numpy as np
import pytest

from numbatok.kernels.slices import slice_text
from numbatok.memory import address_of

CHARACTERS = "a", "é", "語", "😀", "\U0010ffff\U000fffff"


def sliced(text: str, spans: list[tuple[int, int]]) -> list[str]:
    """Parts from character to character, by way of bytes; that the numbers come out again is asserted."""
    data = np.frombuffer(text.encode(), np.uint8)
    in_bytes = np.array([[len(text[:place].encode()) for place in span] for span in spans], np.int64)
    numbers = np.empty_like(in_bytes)
    texts: list[str] = []
    places = address_of(in_bytes), len(spans), address_of(numbers)
    assert slice_text(id(text), address_of(data), len(data), *places, id(texts)) == len(spans)
    assert numbers.tolist() == [list(span) for span in spans]
    return texts


@pytest.mark.parametrize("widest", CHARACTERS)
def test_slices(widest: str) -> None:
    """One after the other and overlapping, with the widest character in some; each is as narrow as CPython's."""
    rng = random.Random(widest)
    for size in (1, 2, 63, 64, 65, 1023, 1025, 5000):
        for few in (1, 3, size):
            letters = [*"ab " * few, *"é語"[: CHARACTERS.index(widest) - 1 if widest in "語😀" else 0], widest]
            text = "".join(rng.choices(letters, k=size))
            edges = sorted(rng.choices(range(len(text) + 1), k=6))
            spans = [(0, len(text)), *pairwise(edges)][1:]
            overlapping = [(begin - begin % 7, end) for begin, end in spans]
            for some in (spans, overlapping, [(0, len(text))], [(len(text) // 3, len(text))], [(0, len(text) // 3)]):
                made = sliced(text, some)
                wanted = [text[begin:end] for begin, end in some]
                assert made == wanted
                assert [part.isascii() for part in made] == [part.isascii() for part in wanted]
                # Of one character CPython may have one for all, which keeps its UTF-8 if another test asked for that.
                longer = [(part, other) for part, other in zip(made, wanted, strict=True) if len(part) > 1]
                assert all(part.__sizeof__() == other.__sizeof__() for part, other in longer)
                assert [part.upper() + part for part in made] == [part.upper() + part for part in wanted]
