"""Characters kept for comparison: the same are told from others, whatever CPython keeps either text in."""

import numpy as np
import pytest

from numbatok.kernels.packed import PACKED_BLOCK, has_packed, pack_characters
from numbatok.memory import address_of

CHARACTERS = "a", "é", "語", "😀"


def pack(text: str, begin: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    """(widths, characters) of a part of a text."""
    widths, characters = np.empty(-(-count // PACKED_BLOCK), np.uint8), np.empty(count, np.uint32)
    used = pack_characters(id(text), begin, count, address_of(widths), address_of(characters))
    assert used == sum(
        int(width) * min(PACKED_BLOCK, count - PACKED_BLOCK * block) for block, width in enumerate(widths)
    )
    return widths, characters.view(np.uint8)[:used].copy()


def has(text: str, begin: int, count: int, packed: tuple[np.ndarray, np.ndarray]) -> bool:
    """Whether the text has the packed characters there."""
    return bool(has_packed(id(text), begin, count, *map(address_of, packed)))


@pytest.mark.parametrize("widest", CHARACTERS)
@pytest.mark.parametrize("other", CHARACTERS)
@pytest.mark.parametrize("count", [1, 63, PACKED_BLOCK - 1, PACKED_BLOCK, PACKED_BLOCK + 1, 3 * PACKED_BLOCK + 77])
def test_same_and_other(widest: str, other: str, count: int) -> None:
    """A part with one wide character, at any block's beginning or end, in texts of every width."""
    for place in sorted({0, count // 2, count - 1, min(PACKED_BLOCK, count - 1)}):
        part = "b" * place + widest + "b" * (count - place - 1)
        packed = pack("?" + part, 1, count)
        assert packed[0][place // PACKED_BLOCK] == (4 if widest > "\uffff" else 2 if widest > "\xff" else 1)
        for before in ("", "xy"):
            assert has(before + part + other, len(before), count, packed)
            for changed in {0, place, count - 1}:
                number = ord(part[changed])
                for wrong in (other, *map(chr, (number ^ 1, number + 0x100, number & 0xFF, number & 0xFFFF))):
                    text = part[:changed] + wrong + part[changed + 1 :]
                    assert has(before + text, len(before), count, packed) == (text == part)
