"""Building a tokenizer's tables from its vocabulary, once, when it first encodes."""

import numpy as np

from numbatok.kernels.added import edge_slot
from numbatok.kernels.dtypes import (
    ALL_ONES,
    ONE,
    RANK_BITS,
    U64,
    VIEW_BUCKETS,
    VIEW_BYTE_PAIRS,
    VIEW_MERGED,
    VIEW_MERGER,
    VIEW_PAIRS,
    VIEW_TOKEN_FILTER,
    VIEW_TOKEN_FILTER_SHIFT,
    VIEW_TOKEN_KEYS,
    VIEW_TOKEN_SHIFT,
    VIEW_TOKEN_SLOTS,
    VIEW_TOKEN_STARTS,
    VIEW_TOKENS,
    WORK_SYMBOLS,
)
from numbatok.kernels.intrinsics import array_at, at, call_kernel, field, put, table
from numbatok.kernels.jit import helper, kernel
from numbatok.kernels.merge import bucket_of, find_token, pair_of, token_key
from numbatok.kernels.spans import key_hash
from numbatok.kernels.starts import set_bit

_RANK_SHIFT = np.uint64(RANK_BITS)
_REMOVED = ALL_ONES << _RANK_SHIFT  # a slot of no pair, which does not end a search


@helper
def _shift_of(length):
    """``64 - k`` for a table of ``length == 2 ** k`` slots."""
    shift = U64(64)
    while length > 1:
        length >>= 1
        shift -= ONE
    return shift


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


@kernel("int64(int64, int64, int64, int64)")
def split_tokens(view, pairs, capacity, lengths):
    """All ways to cut a token into two tokens, as (left, right, token) rows into uint32[capacity, 3] at ``pairs``.

    A rank file merges any two neighbours whose concatenation is a token, at its rank: these rows are its merge list.
    Returns how many there are; ``capacity`` is enough at the tokens' bytes less their number.

    ``lengths`` is the address of a uint8 for each length up to the longest token's, 1 where a token has it. No other
    cut is tried: each costs a hash of all bytes, and a token of a megabyte has a million.
    """
    starts = table(view, VIEW_TOKEN_STARTS, np.int64)
    data = table(view, VIEW_TOKENS, np.uint8)
    rows = array_at(pairs, 3 * capacity, np.uint32)
    found = np.int64(0)
    for token in range(len(starts) - 1):
        begin = at(starts, token)
        length = at(starts, token + 1) - begin
        has_length = array_at(lengths, length, np.uint8)
        for cut in range(1, length):
            if at(has_length, cut) == 0 or at(has_length, length - cut) == 0:
                continue
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


@helper
def _slot_of(entries, buckets, pair):
    """The slot of a pair, or the empty one where it is to be entered."""
    slot = bucket_of(buckets, pair)
    while at(entries, slot) != ALL_ONES and at(entries, slot) >> _RANK_SHIFT != pair:
        slot += 1
        if slot == len(entries):
            slot = np.int64(0)
    return slot


@helper
def _end_of_token(rows, first, count):
    """The end of the run of rows (left, right, token) from ``first`` on that make the same token."""
    end = first + 1
    while end < count and at(rows, 3 * end + 2) == at(rows, 3 * first + 2):
        end += 1
    return end


@kernel("int64(int64, int64, int64, int64, int64, int64)")
def enter_pairs(view, work, pairs, count, most, plain):
    """Enter ``count`` rows (left, right, token) of uint32, in order of rank, into a view's empty pair tables.

    The rank is its number among those entered, and the token is put to ``VIEW_MERGED``; or where that is empty the rank
    is the token.

    Of rows that make the same token and follow each other only one is entered where that is enough. A token is merged
    over bytes that are merged just as they are alone, up to there: no merge reaches over their ends, or there would be
    no such token, and of the others the lowest rank is the next in both. So the pair that is left last when the token's
    bytes are merged alone is the only one that ever makes it. A rank file has two pairs a token, and with half of them
    a first pass over English takes 5 % less.

    ``plain`` is 0 where bytes are not merged as they are: then every row is entered. Ids are symbols meanwhile, and
    ``VIEW_WHOLE_LIMIT`` is 0. Returns how many pairs were entered, whose rows are the first ones now, or -1 where there
    would be more than ``most``, or the same pair again.
    """
    rows = array_at(pairs, 3 * count, np.uint32)
    merged = table(view, VIEW_MERGED, np.uint32)
    starts = table(view, VIEW_TOKEN_STARTS, np.int64)
    data = table(view, VIEW_TOKENS, np.uint8)
    symbols = table(work, WORK_SYMBOLS, np.uint32)
    entries = table(view, VIEW_PAIRS, np.uint64)
    rank_of_bytes = table(view, VIEW_BYTE_PAIRS, np.uint32)
    buckets = U64(field(view, VIEW_BUCKETS))
    entered = np.int64(0)
    first = np.int64(0)
    while first < count:
        token = np.int64(at(rows, 3 * first + 2))
        end = _end_of_token(rows, first, count)
        enough = np.int64(-1)
        if plain != 0 and end - first > 1:
            begin = at(starts, token)
            arguments = (view, work, field(view, VIEW_TOKENS) + begin, at(starts, token + 1) - begin)
            if call_kernel(field(view, VIEW_MERGER), arguments) == 2:
                for row in range(first, end):
                    if at(rows, 3 * row) == at(symbols, 0) and at(rows, 3 * row + 1) == at(symbols, 1):
                        enough = np.int64(row)
        for row in range(first, end):
            if enough >= 0 and row != enough:
                continue
            left = at(rows, 3 * row)
            right = at(rows, 3 * row + 1)
            slot = _slot_of(entries, buckets, pair_of(left, right))
            if at(entries, slot) != ALL_ONES or entered >= most:
                return np.int64(-1)
            rank = np.uint32(token)
            if len(merged) > 0:
                rank = np.uint32(entered)
                put(merged, entered, np.uint32(token))
            put(entries, slot, pair_of(left, right) << _RANK_SHIFT | U64(rank))
            for word in range(3):
                put(rows, 3 * entered + word, at(rows, 3 * row + word))
            entered += 1
            begin = at(starts, token)
            if at(starts, token + 1) - begin == 2:
                put(rank_of_bytes, np.int64(at(data, begin)) << 8 | np.int64(at(data, begin + 1)), rank)
        first = end
    return entered


@kernel("int64(int64, int64, int64, int64)")
def drop_unused(view, work, pairs, count):
    """Of rows (left, right, token), all entered, drop those by which no text is merged, if their token has several.

    By what :func:`enter_pairs` says: a token's bytes, merged alone by all pairs but its own, end as the only pair that
    ever makes it. Where they do not end as one of its pairs nothing makes it. Of a token too long for the scratch all
    rows stay. Returns how many rows are left, which are the first ones now, and the only ones in the table.
    """
    rows = array_at(pairs, 3 * count, np.uint32)
    starts = table(view, VIEW_TOKEN_STARTS, np.int64)
    symbols = table(work, WORK_SYMBOLS, np.uint32)
    entries = table(view, VIEW_PAIRS, np.uint64)
    buckets = U64(field(view, VIEW_BUCKETS))
    kept = np.int64(0)
    first = np.int64(0)
    while first < count:
        token = np.int64(at(rows, 3 * first + 2))
        end = _end_of_token(rows, first, count)
        several = end - first > 1
        made = np.int64(0)
        if several:
            for row in range(first, end):
                slot = _slot_of(entries, buckets, pair_of(at(rows, 3 * row), at(rows, 3 * row + 1)))
                put(entries, slot, _REMOVED)
                put(rows, 3 * row + 2, np.uint32(slot))
            begin = at(starts, token)
            arguments = (view, work, field(view, VIEW_TOKENS) + begin, at(starts, token + 1) - begin)
            made = call_kernel(field(view, VIEW_MERGER), arguments)
        for row in range(first, end):
            left = at(rows, 3 * row)
            right = at(rows, 3 * row + 1)
            if several:
                if made >= 0 and (made != 2 or left != at(symbols, 0) or right != at(symbols, 1)):
                    continue
                put(entries, np.int64(at(rows, 3 * row + 2)), pair_of(left, right) << _RANK_SHIFT | U64(row))
            put(rows, 3 * kept, left)
            put(rows, 3 * kept + 1, right)
            put(rows, 3 * kept + 2, np.uint32(token))
            kept += 1
        first = end
    return kept


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
