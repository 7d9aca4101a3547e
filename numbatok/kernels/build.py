"""Building a tokenizer's tables from its vocabulary, once, when it first encodes."""

import numpy as np

from numbatok.kernels.added import edge_slot
from numbatok.kernels.dtypes import (
    ALL_ONES,
    ONE,
    RANK_BITS,
    SYMBOL_BITS,
    U64,
    VIEW_TOKEN_FILTER,
    VIEW_TOKEN_FILTER_SHIFT,
    VIEW_TOKEN_KEYS,
    VIEW_TOKEN_SHIFT,
    VIEW_TOKEN_SLOTS,
    VIEW_TOKEN_STARTS,
    VIEW_TOKENS,
)
from numbatok.kernels.intrinsics import array_at, at, field, put, table
from numbatok.kernels.jit import helper, kernel
from numbatok.kernels.merge import find_token, pair_hash, pair_rank, token_key
from numbatok.kernels.spans import key_hash

_RANK_SHIFT = np.uint64(RANK_BITS)


@helper
def _shift_of(length):
    """``64 - k`` for a table of ``length == 2 ** k`` slots."""
    shift = U64(64)
    while length > 1:
        length >>= 1
        shift -= ONE
    return shift


@helper
def set_bit(bits, bit):
    """Set one bit of a filter."""
    put(bits, bit >> U64(6), at(bits, bit >> U64(6)) | ONE << (bit & U64(63)))


@kernel("int64(int64)")
def index_tokens(view):
    """Enter the tokens of a view, all different, into its slots, keys and filter, which are zero; return how many.

    The token data is followed by 16 bytes that may be read.
    """
    starts = table(view, VIEW_TOKEN_STARTS, np.int64)
    data = table(view, VIEW_TOKENS, np.uint8)
    keys = table(view, VIEW_TOKEN_KEYS, np.uint64)
    slots = table(view, VIEW_TOKEN_SLOTS, np.uint32)
    bits = table(view, VIEW_TOKEN_FILTER, np.uint64)
    shift = U64(field(view, VIEW_TOKEN_SHIFT))
    bits_shift = U64(field(view, VIEW_TOKEN_FILTER_SHIFT))
    mask = U64(len(slots)) - ONE
    for token in range(len(starts) - 1):
        begin = at(starts, token)
        length = at(starts, token + 1) - begin
        low, high = token_key(data, begin, length)
        hashed = key_hash(low, high)
        slot = hashed >> shift
        while at(slots, slot) != 0:
            slot = (slot + ONE) & mask
        put(slots, slot, np.uint32(token + 1))
        put(keys, 2 * token, low)
        put(keys, 2 * token + 1, high)
        set_bit(bits, hashed >> bits_shift)
    return np.int64(len(starts) - 1)


@kernel("int64(int64, int64, int64)")
def split_tokens(view, pairs, capacity):
    """All ways to cut a token into two tokens, as (left, right, token) rows into uint32[capacity, 3] at ``pairs``.

    A rank file merges any two neighbours whose concatenation is a token, at its rank: these rows are its merge list.
    Returns how many there are; ``capacity`` is enough at the tokens' bytes less their number.
    """
    starts = table(view, VIEW_TOKEN_STARTS, np.int64)
    data = table(view, VIEW_TOKENS, np.uint8)
    rows = array_at(pairs, 3 * capacity, np.uint32)
    found = np.int64(0)
    for token in range(len(starts) - 1):
        begin = at(starts, token)
        length = at(starts, token + 1) - begin
        for cut in range(1, length):
            low, high = token_key(data, begin, cut)
            left = find_token(view, low, high, data, begin, cut)
            if left < 0:
                continue
            low, high = token_key(data, begin + cut, length - cut)
            right = find_token(view, low, high, data, begin + cut, length - cut)
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
    entries = array_at(slots, slot_count, np.uint64)
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
        set_bit(present, hashed >> bits_shift)
        slot = hashed >> shift
        while True:
            old = at(entries, slot)
            if old == ALL_ONES:
                different += 1
                break
            if old >> _RANK_SHIFT == wanted:
                break
            slot = (slot + ONE) & mask
        put(entries, slot, wanted << _RANK_SHIFT | U64(at(rows, 3 * row + 2)))
    for first in range(256):
        for second in range(256):
            left = at(symbol_of_byte, first)
            right = at(symbol_of_byte, second)
            put(rank_of_bytes, first << 8 | second, pair_rank(entries, shift, present, bits_shift, left, right))
    return different


@kernel("int64(int64, int64, int64, int64)")
def enter_edges(edges, count, slots, slot_count):
    """Enter ``count`` rows (node, byte, next node) of uint32 into a trie's table of uint64[slot_count], ALL_ONES."""
    rows = array_at(edges, 3 * count, np.uint32)
    entries = array_at(slots, slot_count, np.uint64)
    shift = _shift_of(slot_count)
    mask = U64(slot_count) - ONE
    for row in range(count):
        node = at(rows, 3 * row)
        byte = at(rows, 3 * row + 1)
        slot = edge_slot(node, byte, shift)
        while at(entries, slot) != ALL_ONES:
            slot = (slot + ONE) & mask
        put(entries, slot, (U64(node) << U64(8) | U64(byte)) << U64(24) | U64(at(rows, 3 * row + 2)))
    return np.int64(count)
