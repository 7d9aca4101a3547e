"""Stage 2: from the bitmap of starts to positions, and from each pretoken to its key."""

import numpy as np

from numbatok.kernels.dtypes import HASH_HIGH, HASH_LOW, LONG_KEY, NARROW_KEY, SHORT_KEY, U64
from numbatok.kernels.intrinsics import at, load_u64, put_8_positions, set_bits
from numbatok.kernels.jit import helper

_BYTE = np.uint64(0xFF)
_EIGHT = np.uint64(8)
_HALF = np.uint64(32)

#: Byte j of ``_OCTETS[o]`` is the position of the j-th set bit of the octet o.
_OCTETS = np.array(
    [sum(bit << 8 * j for j, bit in enumerate(b for b in range(8) if o >> b & 1)) for o in range(256)], U64
)

#: For a pretoken of n bytes: which bits of the two words at its start are its own, and the tags that hold its length.
_LOW_BYTES = np.array([(1 << 8 * min(n, 8)) - 1 for n in range(SHORT_KEY + 1)], U64)
_HIGH_BYTES = np.array([(1 << 8 * max(n - 8, 0)) - 1 for n in range(SHORT_KEY + 1)], U64)
_LOW_TAG = np.array([n << 56 if n <= NARROW_KEY else 0 for n in range(SHORT_KEY + 1)], U64)
_HIGH_TAG = np.array([n << 56 if n > NARROW_KEY else 0 for n in range(SHORT_KEY + 1)], U64)


@helper
def flatten(starts, blocks, positions):
    """Write the positions of all set bits of ``starts[:blocks]``, in order; return how many.

    ``positions`` is uint16, eight longer than the bits, since each octet stores eight positions and advances by its
    count: no branch depends on the data. 0.5 ns a pretoken of English, against 1.7 for a loop over set bits.
    """
    count = 0
    for block in range(blocks):
        bits = at(starts, block)
        for octet in range(8):
            o = bits & _BYTE
            bits >>= _EIGHT
            put_8_positions(positions, count, at(_OCTETS, o), np.uint16(64 * block + 8 * octet))
            count += np.int64(set_bits(o))
    return count


@helper
def short_key(text, position, length):
    """(low, high) words of the key of the ``length <= 15`` bytes at ``text[position]``; reads 16 bytes.

    The high word is zero for a narrow key and never for a wide one.
    """
    low = load_u64(text, position) & at(_LOW_BYTES, length)
    high = load_u64(text, position + 8) & at(_HIGH_BYTES, length)
    return low | at(_LOW_TAG, length), high | at(_HIGH_TAG, length)


@helper
def long_key(text, position, length):
    """(low, high) words of the key of a pretoken longer than 15 bytes: a hash of the bytes, and the length.

    Reads whole words from the start, then the last eight bytes, which overlap; never past the end.
    """
    mixed = U64(length) * HASH_HIGH
    for i in range(0, length - 8, 8):
        mixed = (mixed ^ load_u64(text, position + i)) * HASH_LOW
        mixed ^= mixed >> _HALF
    mixed = (mixed ^ load_u64(text, position + length - 8)) * HASH_LOW
    return mixed ^ mixed >> _HALF, LONG_KEY | U64(length)


@helper
def key_hash(low, high):
    """A 64-bit hash of a key whose *upper* bits are good: a place among 2^k is ``hash >> 64 - k``."""
    mixed = low * HASH_LOW + high * HASH_HIGH
    return (mixed ^ mixed >> _HALF) * HASH_LOW
