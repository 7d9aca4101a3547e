"""Stage 2: from the bitmap of starts to positions, and from each pretoken to its key and its place in the cache."""

import numpy as np

from numbatok.kernels.dtypes import (
    ALL_ONES,
    HASH_HIGH,
    HASH_LOW,
    LONG_KEY,
    LONGEST_CACHED,
    NARROW_BASE,
    NARROW_KEY,
    NARROW_WORDS,
    ONE,
    SHORT_KEY,
    U64,
    WIDE_WORDS,
    WORK_KEYS,
    WORK_NARROW_SHIFT,
    WORK_PLACES,
    WORK_POSITIONS,
    WORK_TABLE,
    WORK_WIDE_SHIFT,
    ZERO,
)
from numbatok.kernels.intrinsics import (
    array_at,
    at,
    field,
    load_u64,
    multiply_fold,
    prefetch,
    put,
    set_bits,
    table,
    trailing_zeros,
)
from numbatok.kernels.intrinsics_vector import copy_16_bytes, gaps_over, put_8_positions, put_positions, selects_bytes
from numbatok.kernels.jit import helper, kernel

_BYTE = np.uint64(0xFF)
_EIGHT = np.uint64(8)
_WORD = np.uint64(64)

#: Byte j of ``_OCTETS[o]`` is the position of the j-th set bit of the octet o.
_OCTETS = np.array(
    [sum(bit << 8 * j for j, bit in enumerate(b for b in range(8) if o >> b & 1)) for o in range(256)], U64
)

#: For a pretoken of n bytes, a row of four words: which bits of 16 bytes are its own, and the tag that holds its
#: length.
_KEY_ROWS = np.array(
    [
        word
        for n in range(SHORT_KEY + 1)
        for word in (
            (1 << 8 * min(n, 8)) - 1,
            (1 << 8 * max(n - 8, 0)) - 1,
            n << 56 if n <= NARROW_KEY else 0,
            0 if n <= NARROW_KEY else n << 56,
        )
    ],
    U64,
)


@helper
def flatten(starts, first, blocks, positions):
    """Write the positions of all set bits of ``blocks`` words from ``starts[first]`` on, in order; return how many.

    ``positions`` is uint16, 64 longer than the bits, since each word stores 64 positions and advances by its count,
    or each octet eight: no branch depends on the data. A pretoken of English takes 0.21 ns so, or 0.36, against 1.7 in
    a loop over set bits.
    """
    count = 0
    if selects_bytes():
        for block in range(blocks):
            bits = at(starts, first + block)
            put_positions(positions, count, bits, np.uint16(64 * block))
            count += np.int64(set_bits(bits))
        return count
    for block in range(blocks):
        bits = at(starts, first + block)
        for octet in range(8):
            o = bits & _BYTE
            bits >>= _EIGHT
            put_8_positions(positions, count, at(_OCTETS, o), np.uint16(64 * block + 8 * octet))
            count += np.int64(set_bits(o))
    return count


@helper
def short_key(text, position, length):
    """(low, high) words of the key of the ``length <= 15`` bytes at ``text[position]``; reads 16 bytes."""
    row = 4 * length
    low = load_u64(text, position) & at(_KEY_ROWS, row) | at(_KEY_ROWS, row + 2)
    high = load_u64(text, position + 8) & at(_KEY_ROWS, row + 1) | at(_KEY_ROWS, row + 3)
    return low, high


@helper
def long_key(text, position, length):
    """(low, high) words of the key of a pretoken longer than 15 bytes: a hash of the bytes, and the length.

    Reads whole words from the start, then the last eight bytes, which overlap; never past the end.
    """
    mixed = U64(length) * HASH_HIGH
    for i in range(0, length - 8, 8):
        mixed = multiply_fold(mixed ^ load_u64(text, position + i), HASH_LOW)
    mixed = multiply_fold(mixed ^ load_u64(text, position + length - 8), HASH_LOW)
    return mixed, LONG_KEY | U64(length)


@helper
def key_hash(low, high):
    """A 64-bit hash of a key whose upper bits are good: a place among 2^k is ``hash >> 64 - k``.

    The product of the two words, each mixed with a constant, folded to its half (as wyhash does): one multiplication.
    """
    return multiply_fold(low ^ HASH_LOW, high ^ HASH_HIGH)


@helper
def wide_base_of(narrow_shift):
    """Index of the first word of the wide entries, after ``2 ** (64 - narrow_shift)`` narrow ones."""
    return NARROW_BASE + (NARROW_WORDS << np.int64(_WORD - narrow_shift))


@helper
def place_of(low, high, narrow_shift, wide_shift, wide_base):
    """Index of the first word of the entry where the search for a key begins.

    By its low word and a multiple of the high one, times a constant (Knuth's multiplicative hashing): arithmetic that
    vectors have, as they have no product of two whole words.
    """
    hashed = (low ^ high * HASH_HIGH) * HASH_LOW
    narrow = NARROW_BASE + np.int64(hashed >> narrow_shift) * NARROW_WORDS
    wide = wide_base + np.int64(hashed >> wide_shift) * WIDE_WORDS
    return narrow if high == ZERO else wide


@kernel("int64(int64, int64, int64, int64, int64, int64)")
def key_pretokens(work, text, length, base, begin, count):
    """Keys and places of ``count <= GROUP`` pretokens, into ``WORK_KEYS`` and ``WORK_PLACES``; their lines are fetched.

    Parameters
    ----------
    work : address of a scratch record
    text, length : address and bytes of what may be read: 16 bytes from each pretoken's start, at least
    base : byte offset of the walk that the positions count from
    begin : number of the first pretoken; it is ``text[base + positions[begin] : base + positions[begin + 1]]``

    Returns whether any of them is long.
    """
    source = array_at(text, length, np.uint8)
    positions = table(work, WORK_POSITIONS, np.uint16)
    keys = table(work, WORK_KEYS, np.uint64)
    places = table(work, WORK_PLACES, np.int64)
    entries = table(work, WORK_TABLE, np.uint64)
    narrow_shift = U64(field(work, WORK_NARROW_SHIFT))
    wide_shift = U64(field(work, WORK_WIDE_SHIFT))
    wide_base = wide_base_of(narrow_shift)
    # Three loops, of which the second runs on vectors: eight pretokens at once where there is AVX-512. Short ones, and
    # what a long one begins with, alike; 2.0 ns a pretoken in one loop, 1.1 so.
    for j in range(count):
        copy_16_bytes(keys, 2 * j, source, base + np.int64(at(positions, begin + j)))
    sizes = ZERO  # those of all, one or-ed to the other
    for j in range((count + 7) & ~7):  # whole vectors; what is beyond the group is of no use, and does no harm
        size = U64(at(positions, begin + j + 1)) - U64(at(positions, begin + j))
        sizes |= size if j < count else ZERO
        own = min(size, U64(SHORT_KEY))
        # As short_key has it, without its table: no shift here is by 64 or more, of which nothing is said.
        low = at(keys, 2 * j) & (ALL_ONES >> (U64(64) - (min(own, _EIGHT) << U64(3))))
        high = at(keys, 2 * j + 1) & ((ALL_ONES >> _EIGHT) >> (U64(120) - (max(own, _EIGHT) << U64(3))))
        tag = own << U64(56)
        is_narrow = own <= U64(NARROW_KEY)
        low |= tag if is_narrow else ZERO
        high |= ZERO if is_narrow else tag
        put(keys, 2 * j, low)
        put(keys, 2 * j + 1, high)
        put(places, j, place_of(low, high, narrow_shift, wide_shift, wide_base))
    for j in range(count):
        prefetch(entries, at(places, j))
    if sizes > U64(SHORT_KEY):
        # Few, found 64 at once: one by one it was a tenth of this kernel's time in English.
        for block in range(0, count, 64):
            long = gaps_over(positions, begin + block, np.uint16(SHORT_KEY))
            while long != ZERO:
                j = block + np.int64(trailing_zeros(long))
                long &= long - ONE
                if j >= count:
                    break
                start = np.int64(at(positions, begin + j))
                size = np.int64(at(positions, begin + j + 1)) - start
                if size <= LONGEST_CACHED:
                    low, high = long_key(source, base + start, size)
                else:
                    low, high = ZERO, LONG_KEY | U64(size)  # is in no table
                place = place_of(low, high, narrow_shift, wide_shift, wide_base)
                prefetch(entries, place)
                put(keys, 2 * j, low)
                put(keys, 2 * j + 1, high)
                put(places, j, place)
    return np.int64(sizes > U64(SHORT_KEY))
