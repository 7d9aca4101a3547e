"""Building a tokenizer's tables from its vocabulary, once, when it first encodes."""

import numpy as np

from numbatok.kernels.added import edge_slot
from numbatok.kernels.dtypes import ALL_ONES, ONE, RANK_BITS, SYMBOL_BITS, U64
from numbatok.kernels.intrinsics import array_at, at, put
from numbatok.kernels.jit import helper, kernel
from numbatok.kernels.merge import find_token, pair_hash, pair_rank, token_hash

_RANK_SHIFT = np.uint64(RANK_BITS)


@helper
def _shift_of(length):
    """``64 - k`` for a table of ``length == 2 ** k`` slots."""
    shift = U64(64)
    while length > 1:
        length >>= 1
        shift -= ONE
    return shift


@kernel("int64(int64, int64, int64, int64, int64)")
def index_tokens(tokens, token_starts, count, slots, slot_count):
    """Enter ``count`` tokens into ``slots`` (uint32, zero, a power of two above ``count``) by their bytes.

    Returns -1, or the number of the first token that has the bytes of an earlier one.
    """
    starts = array_at(token_starts, count + 1, np.int64)
    data = array_at(tokens, at(starts, count), np.uint8)
    table = array_at(slots, slot_count, np.uint32)
    shift = _shift_of(slot_count)
    mask = U64(slot_count) - ONE
    for token in range(count):
        begin = at(starts, token)
        length = at(starts, token + 1) - begin
        if find_token(data, starts, table, shift, data, begin, length) >= 0:
            return np.int64(token)
        slot = token_hash(data, begin, length) >> shift
        while at(table, slot) != 0:
            slot = (slot + ONE) & mask
        put(table, slot, np.uint32(token + 1))
    return np.int64(-1)


@kernel("int64(int64, int64, int64, int64, int64, int64, int64)")
def split_tokens(tokens, token_starts, count, slots, slot_count, pairs, capacity):
    """All ways to cut a token into two tokens, as (left, right, token) rows into uint32[capacity, 3] at ``pairs``.

    A rank file merges any two neighbours whose concatenation is a token, at its rank: these rows are its merge list.
    Returns how many there are; ``capacity`` is enough at the tokens' bytes less their number.
    """
    starts = array_at(token_starts, count + 1, np.int64)
    data = array_at(tokens, at(starts, count), np.uint8)
    table = array_at(slots, slot_count, np.uint32)
    rows = array_at(pairs, 3 * capacity, np.uint32)
    shift = _shift_of(slot_count)
    found = np.int64(0)
    for token in range(count):
        begin = at(starts, token)
        length = at(starts, token + 1) - begin
        for cut in range(1, length):
            left = find_token(data, starts, table, shift, data, begin, cut)
            if left < 0:
                continue
            right = find_token(data, starts, table, shift, data, begin + cut, length - cut)
            if right < 0:
                continue
            put(rows, 3 * found, np.uint32(left))
            put(rows, 3 * found + 1, np.uint32(right))
            put(rows, 3 * found + 2, np.uint32(token))
            found += 1
    return found


@kernel("int64(int64, int64, int64, int64, int64, int64, int64, int64)")
def enter_pairs(pairs, count, slots, slot_count, bits, bit_count, byte_symbols, byte_pairs):
    """Enter ``count`` rows (left, right, rank) of uint32 into a table of pair slots, and rank all pairs of two bytes.

    ``slots`` is uint64[slot_count], ALL_ONES, a power of two above ``count``; of a repeated pair the last rank counts.
    ``bits`` is uint64[bit_count / 64], zero, the filter. ``byte_symbols`` is uint32[256], ``byte_pairs``
    uint32[65536]. Returns how many different pairs there are.
    """
    rows = array_at(pairs, 3 * count, np.uint32)
    table = array_at(slots, slot_count, np.uint64)
    present = array_at(bits, bit_count >> 6, np.uint64)
    symbol_of_byte = array_at(byte_symbols, 256, np.uint32)
    rank_of_bytes = array_at(byte_pairs, 65536, np.uint32)
    shift = _shift_of(slot_count)
    bits_shift = _shift_of(bit_count)
    mask = U64(slot_count) - ONE
    different = np.int64(0)
    for row in range(count):
        left = at(rows, 3 * row)
        right = at(rows, 3 * row + 1)
        wanted = U64(left) << U64(SYMBOL_BITS) | U64(right)
        hashed = pair_hash(left, right)
        bit = hashed >> bits_shift
        put(present, bit >> U64(6), at(present, bit >> U64(6)) | ONE << (bit & U64(63)))
        slot = hashed >> shift
        while True:
            old = at(table, slot)
            if old == ALL_ONES:
                different += 1
                break
            if old >> _RANK_SHIFT == wanted:
                break
            slot = (slot + ONE) & mask
        put(table, slot, wanted << _RANK_SHIFT | U64(at(rows, 3 * row + 2)))
    for first in range(256):
        for second in range(256):
            left = at(symbol_of_byte, first)
            right = at(symbol_of_byte, second)
            put(rank_of_bytes, first << 8 | second, pair_rank(table, shift, present, bits_shift, left, right))
    return different


@kernel("int64(int64, int64, int64, int64)")
def enter_edges(edges, count, slots, slot_count):
    """Enter ``count`` rows (node, byte, next node) of uint32 into a trie's table of uint64[slot_count], ALL_ONES."""
    rows = array_at(edges, 3 * count, np.uint32)
    table = array_at(slots, slot_count, np.uint64)
    shift = _shift_of(slot_count)
    mask = U64(slot_count) - ONE
    for row in range(count):
        node = at(rows, 3 * row)
        byte = at(rows, 3 * row + 1)
        slot = edge_slot(node, byte, shift)
        while at(table, slot) != ALL_ONES:
            slot = (slot + ONE) & mask
        put(table, slot, (U64(node) << U64(8) | U64(byte)) << U64(24) | U64(at(rows, 3 * row + 2)))
    return np.int64(count)
