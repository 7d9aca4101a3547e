"""Stage 4: merging the bytes of one pretoken into tokens, when the cache does not know it.

Byte pair encoding replaces, again and again, the adjacent pair of symbols with the lowest rank by the symbol it makes,
the leftmost of equal ones first, until no pair has a rank (Sennrich, Haddow and Birch, "Neural Machine Translation of
Rare Words with Subword Units", 2016, section 3.2). Both kinds of vocabulary become one table of pairs: a merge list
gives its pairs, a rank file every split of a token into two tokens.
"""

import numpy as np

from numbatok.kernels.dtypes import (
    ALL_ONES,
    HASH_HIGH,
    HASH_LOW,
    NEED_MERGE,
    NO_RANK,
    ONE,
    RANK_BITS,
    SHORT_MERGE,
    SYMBOL_BITS,
    U64,
    VIEW_BYTE_PAIRS,
    VIEW_BYTE_SYMBOLS,
    VIEW_IDS,
    VIEW_MERGED,
    VIEW_PAIR_SHIFT,
    VIEW_PAIRS,
    VIEW_TOKEN_SHIFT,
    VIEW_TOKEN_SLOTS,
    VIEW_TOKEN_STARTS,
    VIEW_TOKENS,
    VIEW_WHOLE_FIRST,
    WORK_HEAP,
    WORK_NEXT,
    WORK_PREVIOUS,
    WORK_RANKS,
    WORK_SYMBOLS,
)
from numbatok.kernels.intrinsics import array_at, at, field, put, table
from numbatok.kernels.jit import helper, kernel

_RANK_MASK = np.uint64((1 << RANK_BITS) - 1)
_RANK_SHIFT = np.uint64(RANK_BITS)
_LEFT_SHIFT = np.uint64(SYMBOL_BITS)
_RANK_TOP = np.uint64(32)
_LOW_HALF = np.uint64(0xFFFFFFFF)


@helper
def pair_slot(left, right, shift):
    """First slot of the pair in a table of ``2 ** (64 - shift)`` slots."""
    return ((U64(left) << _LEFT_SHIFT | U64(right)) * HASH_LOW) >> shift


@helper
def pair_rank(pairs, shift, left, right):
    """Rank of the pair of symbols, or NO_RANK."""
    wanted = U64(left) << _LEFT_SHIFT | U64(right)
    slot = (wanted * HASH_LOW) >> shift
    mask = U64(len(pairs)) - ONE
    while True:
        found = at(pairs, slot)
        if found >> _RANK_SHIFT == wanted:
            return np.uint32(found & _RANK_MASK)
        if found == ALL_ONES:
            return NO_RANK
        slot = (slot + ONE) & mask


@helper
def token_hash(text, position, length):
    """Hash of any run of bytes, upper bits good; one byte at a time, for tables read only on a miss."""
    mixed = U64(length) * HASH_HIGH
    for i in range(length):
        mixed = (mixed ^ U64(at(text, position + i))) * HASH_LOW
        mixed ^= mixed >> _RANK_TOP
    return mixed * HASH_LOW


@helper
def find_token(tokens, token_starts, slots, shift, text, position, length):
    """Symbol whose bytes are ``text[position : position + length]``, or -1."""
    mask = U64(len(slots)) - ONE
    slot = token_hash(text, position, length) >> shift
    while True:
        found = np.int64(at(slots, slot)) - 1
        if found < 0:
            return np.int64(-1)
        begin = at(token_starts, found)
        if at(token_starts, found + 1) - begin == length:
            same = 0
            while same < length and at(tokens, begin + same) == at(text, position + same):
                same += 1
            if same == length:
                return found
        slot = (slot + ONE) & mask


@helper
def _merge_by_scan(symbols, ranks, count, pairs, shift, merged):
    """Merge ``symbols[:count]``, whose ``ranks`` are set, by looking for the minimum anew each time; return how many."""
    while count > 1:
        best = NO_RANK
        where = 0
        for i in range(count - 1):
            rank = at(ranks, i)
            if rank < best:
                best = rank
                where = i
        if best == NO_RANK:
            break
        made = at(merged, best)
        put(symbols, where, made)
        count -= 1
        for i in range(where + 1, count):
            put(symbols, i, at(symbols, i + 1))
            put(ranks, i, at(ranks, i + 1))
        if where + 1 < count:
            put(ranks, where, pair_rank(pairs, shift, made, at(symbols, where + 1)))
        if where > 0:
            put(ranks, where - 1, pair_rank(pairs, shift, at(symbols, where - 1), made))
    return count


@helper
def _sift_down(heap, size, hole, value):
    """Put ``value`` into a binary heap whose entry ``hole`` is free, towards the leaves."""
    while True:
        child = 2 * hole + 1
        if child >= size:
            break
        if child + 1 < size and at(heap, child + 1) < at(heap, child):
            child += 1
        if at(heap, child) >= value:
            break
        put(heap, hole, at(heap, child))
        hole = child
    put(heap, hole, value)


@helper
def _sift_up(heap, hole, value):
    """Put ``value`` into a binary heap whose entry ``hole`` is free, towards the root."""
    while hole > 0:
        parent = (hole - 1) >> 1
        if at(heap, parent) <= value:
            break
        put(heap, hole, at(heap, parent))
        hole = parent
    put(heap, hole, value)


@helper
def _merge_by_heap(symbols, ranks, count, pairs, shift, merged, after, before, heap):
    """Merge ``symbols[:count]`` in n log n: a heap of (rank, position), and a list of the symbols that are left.

    An entry of the heap is stale, and dropped, when the pair at its position has another rank by now. Each merge takes
    one entry and adds at most two, so the heap never holds more than ``2 * count``.
    """
    size = 0
    for i in range(count):
        put(before, i, np.int32(i - 1))
        put(after, i, np.int32(i + 1))
        if i + 1 < count and at(ranks, i) != NO_RANK:
            put(heap, size, U64(at(ranks, i)) << _RANK_TOP | U64(i))
            size += 1
    put(ranks, count - 1, NO_RANK)
    for root in range((size >> 1) - 1, -1, -1):
        _sift_down(heap, size, root, at(heap, root))
    while size > 0:
        best = at(heap, 0)
        size -= 1
        if size > 0:
            _sift_down(heap, size, 0, at(heap, size))
        where = np.int64(best & _LOW_HALF)
        rank = np.uint32(best >> _RANK_TOP)
        if at(ranks, where) != rank:
            continue
        made = at(merged, rank)
        gone = np.int64(at(after, where))
        right = np.int64(at(after, gone))
        put(symbols, where, made)
        put(ranks, gone, NO_RANK)
        put(ranks, where, NO_RANK)
        put(after, where, np.int32(right))
        if right < count:
            put(before, right, np.int32(where))
            new = pair_rank(pairs, shift, made, at(symbols, right))
            put(ranks, where, new)
            if new != NO_RANK:
                _sift_up(heap, size, U64(new) << _RANK_TOP | U64(where))
                size += 1
        left = np.int64(at(before, where))
        if left >= 0:
            new = pair_rank(pairs, shift, at(symbols, left), made)
            put(ranks, left, new)
            if new != NO_RANK:
                _sift_up(heap, size, U64(new) << _RANK_TOP | U64(left))
                size += 1
    kept = 0
    here = np.int64(0)
    while here < count:
        put(symbols, kept, at(symbols, here))
        kept += 1
        here = np.int64(at(after, here))
    return kept


@kernel("int64(int64, int64, int64, int64)")
def merge_pretoken(view, work, text, length):
    """Tokens of the ``length`` bytes at address ``text``; their ids are left in ``WORK_SYMBOLS``.

    Each byte is read once, so that text which another thread changes gives the ids of some text. Returns how many ids,
    or NEED_MERGE where the buffers hold fewer than ``length`` symbols.
    """
    source = array_at(text, length, np.uint8)
    symbols = table(work, WORK_SYMBOLS, np.uint32)
    ids = table(view, VIEW_IDS, np.uint32)
    if length > len(symbols):
        return NEED_MERGE
    if field(view, VIEW_WHOLE_FIRST) != 0:
        token = find_token(
            table(view, VIEW_TOKENS, np.uint8),
            table(view, VIEW_TOKEN_STARTS, np.int64),
            table(view, VIEW_TOKEN_SLOTS, np.uint32),
            U64(field(view, VIEW_TOKEN_SHIFT)),
            source,
            0,
            length,
        )
        if token >= 0:
            put(symbols, 0, at(ids, token))
            return 1

    ranks = table(work, WORK_RANKS, np.uint32)
    byte_symbols = table(view, VIEW_BYTE_SYMBOLS, np.uint32)
    byte_pairs = table(view, VIEW_BYTE_PAIRS, np.uint32)
    pairs = table(view, VIEW_PAIRS, np.uint64)
    shift = U64(field(view, VIEW_PAIR_SHIFT))
    merged = table(view, VIEW_MERGED, np.uint32)
    before = np.int64(0)
    for i in range(length):
        byte = np.int64(at(source, i))
        put(symbols, i, at(byte_symbols, byte))
        if i > 0:
            put(ranks, i - 1, at(byte_pairs, before << 8 | byte))
        before = byte
    if length <= SHORT_MERGE:
        count = _merge_by_scan(symbols, ranks, length, pairs, shift, merged)
    else:
        after = table(work, WORK_NEXT, np.int32)
        previous = table(work, WORK_PREVIOUS, np.int32)
        heap = table(work, WORK_HEAP, np.uint64)
        count = _merge_by_heap(symbols, ranks, length, pairs, shift, merged, after, previous, heap)
    for i in range(count):
        put(symbols, i, at(ids, at(symbols, i)))
    return count
