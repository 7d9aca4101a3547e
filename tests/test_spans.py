"""Stage 2: from the bitmap to positions, and from pretokens to keys that tell them apart."""

import random
from collections.abc import Sequence

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from numbatok.kernels import dtypes, spans
from support import address_of, array_of, keep_tail, new_scratch


@numba.njit
def flatten(bitmap, blocks, positions):
    """The helper, called from Python."""
    return spans.flatten(bitmap, 0, blocks, positions)


def keys_of(
    tokenizer, text: bytes, edges: Sequence[int], *, base: int = 0, from_tail: bool = False
) -> tuple[list[tuple[int, int]], list[int], int]:
    """((low, high) of each pretoken ``text[base + edges[j] : base + edges[j + 1]]``, places, whether any is long)."""
    scratch = new_scratch(tokenizer)
    data = array_of(text)
    keep_tail(scratch, data)
    count = len(edges) - 1
    scratch.set_table(dtypes.WORK_POSITIONS, np.array([*edges, *[0] * dtypes.POSITION_SLACK], np.uint16))
    keys, places = np.zeros(2 * dtypes.GROUP, np.uint64), np.zeros(dtypes.GROUP, np.int64)
    scratch.set_table(dtypes.WORK_KEYS, keys)
    scratch.set_table(dtypes.WORK_PLACES, places)
    address, length = address_of(data), len(data)
    if from_tail:
        base -= len(data) - min(len(data), dtypes.TAIL_KEPT)
        address, length = int(scratch.record[dtypes.WORK_TAIL]), dtypes.TAIL_BYTES
    long = spans.key_pretokens(scratch.address, address, length, base, 0, count)
    pairs = keys[: 2 * count].reshape(-1, 2).tolist()
    return [(low, high) for low, high in pairs], places[:count].tolist(), long


def drawn_key(pretoken: bytes) -> tuple[int, int]:
    """The key of a pretoken of at most 15 bytes, as :mod:`numbatok.kernels.dtypes` draws it."""
    if len(pretoken) <= dtypes.NARROW_KEY:
        return int.from_bytes(pretoken, "little") | len(pretoken) << 56, 0
    whole = int.from_bytes(pretoken, "little") | len(pretoken) << 120
    return whole & (1 << 64) - 1, whole >> 64


@given(st.lists(st.integers(0, 2**64 - 1) | st.sampled_from([0, 2**64 - 1, 1, 1 << 63]), min_size=1, max_size=128))
def test_flatten(blocks: list[int]) -> None:
    """The positions of all set bits in order, for any pattern of bits."""
    bitmap = np.array(blocks, np.uint64)
    positions = np.zeros(64 * len(blocks) + 64, np.uint16)
    expected = np.flatnonzero(np.unpackbits(bitmap.astype("<u8").view(np.uint8), bitorder="little"))
    count = flatten(bitmap, len(bitmap), positions)
    assert count == len(expected)
    assert positions[:count].tolist() == expected.tolist()


@pytest.mark.parametrize("from_tail", [False, True])
def test_a_short_pretoken_is_its_own_key(small_ranks, from_tail: bool) -> None:
    """1 to 15 bytes: exactly these bytes, zeros and the length, whatever stands after them."""
    rng = random.Random(4)
    for size in range(1, dtypes.SHORT_KEY + 1):
        for fill in (b"\x00", b"\xff", b"a"):
            pretoken = rng.randbytes(size - 1) + fill
            text = rng.randbytes(100) + pretoken + (b"" if from_tail else fill * 16)
            (key,), _, long = keys_of(small_ranks, text, [0, size], base=100, from_tail=from_tail)
            assert key == drawn_key(pretoken)
            assert long == 0


def test_zeros_in_a_pretoken_count(small_ranks) -> None:
    """``b"a"``, ``b"a\\0"`` ... differ: the length is part of the key."""
    keys = [keys_of(small_ranks, b"a" + bytes(40), [0, size])[0][0] for size in range(1, 30)]
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize("size", [16, 17, 23, 24, 25, 31, 32, 33, 63, 64, 65, 200, 255, 256])
def test_a_long_pretoken_has_a_hash(small_ranks, size: int) -> None:
    """16 to 256 bytes: the high word is marked, the low one depends on each byte and on nothing outside."""
    rng = random.Random(size)
    pretoken = rng.randbytes(size)
    (key,), _, long = keys_of(small_ranks, pretoken + bytes(16), [0, size])
    assert long == 1
    assert key[1] == int(dtypes.LONG_KEY) | size
    elsewhere = rng.randbytes(37) + pretoken + rng.randbytes(50)
    assert keys_of(small_ranks, elsewhere, [0, size], base=37)[0] == [key]
    for place in range(size):
        changed = bytearray(pretoken)
        changed[place] ^= 1 << rng.randrange(8)
        assert keys_of(small_ranks, bytes(changed) + bytes(16), [0, size])[0] != [key], place


def test_a_group_of_all_lengths(small_ranks) -> None:
    """Pretokens of mixed lengths in one group: each key is what it is alone, and its place lies in its own table."""
    rng = random.Random(5)
    sizes = [*range(1, 40), 64, 128, 256, 257, 300, 1, 16, 7, 8, 15]
    edges = np.cumsum([0, *sizes]).tolist()
    text = rng.randbytes(edges[-1] + 16)
    keys, places, long = keys_of(small_ranks, text, edges)
    assert long == any(size > dtypes.SHORT_KEY for size in sizes)
    wide_base = dtypes.NARROW_BASE + dtypes.NARROW_WORDS * (
        1 << 64 - int(new_scratch(small_ranks).record[dtypes.WORK_NARROW_SHIFT])
    )
    for begin, size, key, place in zip(edges, sizes, keys, places, strict=False):
        assert keys_of(small_ranks, text[begin:] + bytes(16), [0, size])[0] == [key], size
        if size <= dtypes.NARROW_KEY:
            assert dtypes.NARROW_BASE <= place < wide_base
            assert (place - dtypes.NARROW_BASE) % dtypes.NARROW_WORDS == 0
        else:
            assert place >= wide_base
            assert (place - wide_base) % dtypes.WIDE_WORDS == 0
