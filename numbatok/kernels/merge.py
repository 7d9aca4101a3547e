"""Stage 4: merging the bytes of one pretoken into tokens, when the cache does not know it.

Byte pair encoding replaces, again and again, the adjacent pair of symbols with the lowest rank by the symbol it makes,
the leftmost of equal ones first, until no pair has a rank (Sennrich, Haddow and Birch, "Neural Machine Translation of
Rare Words with Subword Units", 2016, section 3.2). Both kinds of vocabulary become one table of pairs: a merge list
gives its pairs, a rank file every split of a token into two tokens, as far as :func:`build.enter_pairs` needs them.

What is merged is bytes or, for models with options, the units of :mod:`numbatok.kernels.units`.
"""

import numpy as np

from numbatok.kernels.dtypes import (
    ALL_ONES,
    BUCKET,
    HASH_LOW,
    NEED_MERGE,
    NO_RANK,
    ONE,
    RANK_BITS,
    SHORT_KEY,
    SHORT_MERGE,
    SYMBOL_BITS,
    U64,
    VIEW_BUCKETS,
    VIEW_BYTE_PAIRS,
    VIEW_BYTE_SYMBOLS,
    VIEW_DROPOUT,
    VIEW_FIRST_ID,
    VIEW_IDS,
    VIEW_IDS_PER_BYTE,
    VIEW_MERGED,
    VIEW_PAIRS,
    VIEW_SCAN_LIMIT,
    VIEW_TOKEN_FILTER,
    VIEW_TOKEN_FILTER_SHIFT,
    VIEW_TOKEN_KEYS,
    VIEW_TOKEN_SHIFT,
    VIEW_TOKEN_SLOTS,
    VIEW_TOKEN_STARTS,
    VIEW_TOKENS,
    VIEW_WHOLE_LIMIT,
    WORK_HEAP,
    WORK_NEXT,
    WORK_PREVIOUS,
    WORK_RANDOM,
    WORK_RANKS,
    WORK_SYMBOLS,
    ZERO,
)
from numbatok.kernels.intrinsics import (
    array_at,
    at,
    field,
    leading_zeros,
    prefetch,
    put,
    set_field,
    table,
    trailing_zeros,
    unseen,
)
from numbatok.kernels.intrinsics_vector import smallest_of_16, words_above
from numbatok.kernels.jit import helper, kernel
from numbatok.kernels.spans import key_hash, long_key, short_key
from numbatok.kernels.units import split_units

_RANK_MASK = np.uint64((1 << RANK_BITS) - 1)
_RANK_SHIFT = np.uint64(RANK_BITS)
_LEFT_SHIFT = np.uint64(SYMBOL_BITS)
_LAST_SLOT = np.uint64(1 << BUCKET - 1)
_RANK_TOP = np.uint64(32)
_HALF = np.uint64(32)
_WORD = np.uint64(64)
_WORD_MASK = np.uint64(63)
_WORD_SHIFT = np.uint64(6)
_LOW_HALF = np.uint64(0xFFFFFFFF)
_MIX_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_MIX_SECOND = np.uint64(0x94D049BB133111EB)


@helper
def pair_of(left, right):
    """A pair of symbols as one number: what its slot holds above the rank."""
    return U64(left) << _LEFT_SHIFT | U64(right)


@helper
def pair_tables(view):
    """(pairs, buckets): where :func:`pair_rank` looks a pair up."""
    return table(view, VIEW_PAIRS, np.uint64), U64(field(view, VIEW_BUCKETS))


@helper
def bucket_of(buckets, pair):
    """The first slot of the bucket where the search for a pair begins."""
    return np.int64(((pair * HASH_LOW >> _HALF) * buckets >> _HALF) * U64(BUCKET))


@helper
def fetch_pair(pairs, buckets, left, right):
    """Fetch what :func:`pair_rank` reads."""
    prefetch(pairs, bucket_of(buckets, pair_of(left, right)))


@helper
def rank_further(pairs, bucket, pair):
    """Rank of a pair that is not in its full bucket: those that found no room there are in the next ones."""
    while True:
        bucket += BUCKET
        if bucket == len(pairs):
            bucket = np.int64(0)
        found = words_above(pairs, bucket, _RANK_SHIFT, pair)
        if found != ZERO:
            return np.uint32(at(pairs, bucket + np.int64(trailing_zeros(found))) & _RANK_MASK)
        if at(pairs, bucket + BUCKET - 1) == ALL_ONES:
            return NO_RANK


@helper
def pair_rank(pairs, buckets, left, right):
    """Rank of the pair of symbols, or NO_RANK.

    Its bucket is a cache line and compared at once, with no branch for whether a pair has a rank: that no processor
    foresees, and one wrong every third time costs more than all else. There is one for whether to look at the next
    bucket, which is seldom.
    """
    pair = pair_of(left, right)
    bucket = bucket_of(buckets, pair)
    match = words_above(pairs, bucket, _RANK_SHIFT, pair)
    found = at(pairs, bucket + np.int64(trailing_zeros(match | _LAST_SLOT)))
    rank = np.uint32(found & _RANK_MASK) if match != ZERO else NO_RANK
    if unseen(U64(match == ZERO) & U64(found != ALL_ONES)) != ZERO:
        rank = rank_further(pairs, bucket, pair)
    return rank


@helper
def token_key(text, position, length):
    """(low, high) words of the key of any run of bytes; of at most 15, 16 are read."""
    if length <= SHORT_KEY:
        return short_key(text, position, length)
    return long_key(text, position, length)


@helper
def fetch_token(view, low, high):
    """Fetch what :func:`may_be_token` reads of the key of a short pretoken, or of a longer one."""
    hashed = key_hash(low, high)
    prefetch(table(view, VIEW_TOKEN_SLOTS, np.uint32), np.int64(hashed >> U64(field(view, VIEW_TOKEN_SHIFT))))
    bit = hashed >> U64(field(view, VIEW_TOKEN_FILTER_SHIFT))
    prefetch(table(view, VIEW_TOKEN_FILTER, np.uint64), np.int64(bit >> _WORD_SHIFT))


@helper
def may_be_token(view, low, high):
    """Whether the filter lets a key pass, as one of ten that are no token; fetches what :func:`find_token` reads."""
    hashed = key_hash(low, high)
    found = at(table(view, VIEW_TOKEN_SLOTS, np.uint32), hashed >> U64(field(view, VIEW_TOKEN_SHIFT)))
    prefetch(table(view, VIEW_TOKEN_KEYS, np.uint64), 2 * max(np.int64(found) - 1, 0))
    bit = hashed >> U64(field(view, VIEW_TOKEN_FILTER_SHIFT))
    bits = table(view, VIEW_TOKEN_FILTER, np.uint64)
    return at(bits, bit >> _WORD_SHIFT) >> (bit & _WORD_MASK) & ONE != ZERO


@helper
def find_token(view, low, high, text, position, length):
    """Symbol whose bytes are ``text[position : position + length]``, whose key is (low, high); or -1.

    A filter answers first: most new pretokens are no token. Without it this took longer than merging.
    """
    hashed = key_hash(low, high)
    slots = table(view, VIEW_TOKEN_SLOTS, np.uint32)
    slot = hashed >> U64(field(view, VIEW_TOKEN_SHIFT))
    prefetch(slots, np.int64(slot))
    bits = table(view, VIEW_TOKEN_FILTER, np.uint64)
    bit = hashed >> U64(field(view, VIEW_TOKEN_FILTER_SHIFT))
    if at(bits, bit >> _WORD_SHIFT) >> (bit & _WORD_MASK) & ONE == ZERO:
        return np.int64(-1)
    keys = table(view, VIEW_TOKEN_KEYS, np.uint64)
    mask = U64(len(slots)) - ONE
    while True:
        found = np.int64(at(slots, slot)) - 1
        if found < 0:
            return np.int64(-1)
        if at(keys, 2 * found) == low and at(keys, 2 * found + 1) == high:
            if length <= SHORT_KEY:
                return found
            tokens = table(view, VIEW_TOKENS, np.uint8)
            begin = at(table(view, VIEW_TOKEN_STARTS, np.int64), found)
            same = 0
            while same < length and at(tokens, begin + same) == at(text, position + same):
                same += 1
            if same == length:
                return found
        slot = (slot + ONE) & mask


@helper
def made_by(rank, merged):
    """The symbol that the merge of a rank makes; nothing is read where that is the rank, as ``merged`` is empty."""
    return at(merged, np.int64(rank)) if len(merged) > 0 else rank


@helper
def id_tables(view):
    """(ids, first): where :func:`id_of` has the ids of symbols from."""
    return table(view, VIEW_IDS, np.uint32), np.uint32(field(view, VIEW_FIRST_ID))


@helper
def id_of(symbol, ids, first):
    """The id of a symbol; nothing is read where ids are numbered as symbols are, as ``ids`` is empty."""
    return at(ids, np.int64(symbol)) if len(ids) > 0 else np.uint32(symbol) + first


@helper
def _merge_by_scan(symbols, ranks, count, pairs, buckets, merged):
    """Merge ``symbols[:count]``, at most 64, by looking for the lowest rank anew each time; return how many are left.

    ``ranks`` is set, and NO_RANK from ``count - 1`` to a multiple of 16. Symbols keep their place, and a bitmap says
    which are left, so that nothing moves and neighbours are found by counting zero bits.
    """
    left = ALL_ONES >> (_WORD - U64(count))
    while True:
        best = smallest_of_16(ranks, 0)
        for block in range(16, count, 16):
            best = min(best, smallest_of_16(ranks, block) + U64(block))
        rank = np.uint32(best >> _RANK_TOP)
        if rank == NO_RANK:
            break
        where = best & _LOW_HALF
        made = made_by(rank, merged)
        after = left >> where >> ONE
        gone = where + ONE + trailing_zeros(after)
        left ^= ONE << gone
        put(symbols, where, made)
        put(ranks, gone, NO_RANK)
        after &= after - ONE
        before = left & ((ONE << where) - ONE)
        # Both are fetched before either is waited for.
        if after != ZERO:
            fetch_pair(pairs, buckets, made, at(symbols, where + ONE + trailing_zeros(after)))
        if before != ZERO:
            fetch_pair(pairs, buckets, at(symbols, _WORD_MASK - leading_zeros(before)), made)
        new = NO_RANK
        if after != ZERO:
            right = where + ONE + trailing_zeros(after)
            new = pair_rank(pairs, buckets, made, at(symbols, right))
        put(ranks, where, new)
        if before != ZERO:
            previous = _WORD_MASK - leading_zeros(before)
            put(ranks, previous, pair_rank(pairs, buckets, at(symbols, previous), made))
    kept = 0
    while left != ZERO:
        put(symbols, kept, at(symbols, trailing_zeros(left)))
        left &= left - ONE
        kept += 1
    return kept


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
def _draw(work):
    """24 random bits, by SplitMix64 (Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators", 2014)."""
    state = U64(field(work, WORK_RANDOM)) + HASH_LOW
    set_field(work, WORK_RANDOM, np.int64(state))
    mixed = (state ^ state >> U64(30)) * _MIX_FIRST
    mixed = (mixed ^ mixed >> U64(27)) * _MIX_SECOND
    return (mixed ^ mixed >> U64(31)) >> U64(40)


@helper
def _merge_by_heap(work, symbols, ranks, count, pairs, buckets, merged, dropout):
    """Merge ``symbols[:count]`` in n log n: a heap of (rank, position), and a list of the symbols that are left.

    An entry of the heap is stale, and dropped, when the pair at its position makes another symbol by now. Each merge
    takes one entry and adds at most two, so the heap never holds more than ``2 * count``.

    With dropout (Provilkov, Emelianenko and Voita, "BPE-Dropout", 2020), as ``tokenizers`` has it, each entry that is
    taken is put off ``dropout`` times of 2^24, until one is not: then all that were put off come back. Meanwhile they
    stand behind the heap's end, in the room that taking them made.
    """
    after = table(work, WORK_NEXT, np.int32)
    before = table(work, WORK_PREVIOUS, np.int32)
    heap = table(work, WORK_HEAP, np.uint64)
    put_off = 0
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
        if dropout != ZERO and _draw(work) < dropout:
            put(heap, size, best)
            put_off += 1
            continue
        while put_off > 0:
            _sift_up(heap, size, at(heap, size + 1))
            size += 1
            put_off -= 1
        where = np.int64(best & _LOW_HALF)
        rank = np.uint32(best >> _RANK_TOP)
        made = made_by(rank, merged)
        now = at(ranks, where)
        if now != rank and (now == NO_RANK or made_by(now, merged) != made):
            continue
        gone = np.int64(at(after, where))
        right = np.int64(at(after, gone))
        put(symbols, where, made)
        put(ranks, gone, NO_RANK)
        put(ranks, where, NO_RANK)
        put(after, where, np.int32(right))
        if right < count:
            put(before, right, np.int32(where))
            new = pair_rank(pairs, buckets, made, at(symbols, right))
            put(ranks, where, new)
            if new != NO_RANK:
                _sift_up(heap, size, U64(new) << _RANK_TOP | U64(where))
                size += 1
        left = np.int64(at(before, where))
        if left >= 0:
            new = pair_rank(pairs, buckets, at(symbols, left), made)
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


@helper
def _whole_token(view, text, length):
    """Symbol of the token that is the whole of the ``length`` bytes at address ``text``, where the vocabulary asks for
    whole tokens first; or -1. Of at most 15 bytes 16 are read.
    """
    if length > field(view, VIEW_WHOLE_LIMIT):
        return np.int64(-1)
    readable = array_at(text, max(length, 16), np.uint8)
    low, high = token_key(readable, 0, length)
    return find_token(view, low, high, readable, 0, length)


@kernel("int64(int64, int64, int64, int64)")
def merge_pretoken(view, work, text, length):
    """Tokens of the ``length`` bytes at address ``text``; their ids are left in ``WORK_SYMBOLS``.

    Of at most 15 bytes 16 are read. Each byte that is merged is read once, so that text which another thread changes
    gives the ids of some text. Returns how many ids, or NEED_MERGE where the buffers hold fewer than ``length``.
    """
    source = array_at(text, length, np.uint8)
    symbols = table(work, WORK_SYMBOLS, np.uint32)
    ids, first_id = id_tables(view)
    if length > len(symbols):
        return NEED_MERGE
    token = _whole_token(view, text, length)
    if token >= 0:
        put(symbols, 0, id_of(token, ids, first_id))
        return 1
    ranks = table(work, WORK_RANKS, np.uint32)
    byte_symbols = table(view, VIEW_BYTE_SYMBOLS, np.uint32)
    byte_pairs = table(view, VIEW_BYTE_PAIRS, np.uint32)
    pairs, buckets = pair_tables(view)
    merged = table(view, VIEW_MERGED, np.uint32)
    before = np.int64(0)
    for i in range(length):
        byte = np.int64(at(source, i))
        put(symbols, i, at(byte_symbols, byte))
        if i > 0:
            put(ranks, i - 1, at(byte_pairs, before << 8 | byte))
        before = byte
    if length <= SHORT_MERGE:
        for i in range(length - 1, (length + 15) & ~15):
            put(ranks, i, NO_RANK)
        count = _merge_by_scan(symbols, ranks, length, pairs, buckets, merged)
    else:
        count = _merge_by_heap(work, symbols, ranks, length, pairs, buckets, merged, ZERO)
    for i in range(count):
        put(symbols, i, id_of(at(symbols, i), ids, first_id))
    return count


@kernel("int64(int64, int64, int64, int64)")
def merge_pretoken_by_options(view, work, text, length):
    """What :func:`merge_pretoken` does, for a vocabulary with any of the options that ``tokenizers`` has.

    Returns how many ids, none it may be, or NEED_MERGE where the buffers hold fewer than ``VIEW_IDS_PER_BYTE`` a byte.
    """
    source = array_at(text, length, np.uint8)
    symbols = table(work, WORK_SYMBOLS, np.uint32)
    ids, first_id = id_tables(view)
    if length * field(view, VIEW_IDS_PER_BYTE) > len(symbols):
        return NEED_MERGE
    token = _whole_token(view, text, length)
    if token >= 0:
        put(symbols, 0, id_of(token, ids, first_id))
        return 1
    ranks = table(work, WORK_RANKS, np.uint32)
    pairs, buckets = pair_tables(view)
    merged = table(view, VIEW_MERGED, np.uint32)
    count = split_units(view, source, length, symbols, ranks)
    for i in range(1, count):
        put(ranks, i - 1, pair_rank(pairs, buckets, at(symbols, i - 1), at(symbols, i)))
    if count <= 1:
        pass
    elif count <= field(view, VIEW_SCAN_LIMIT):
        for i in range(count - 1, (count + 15) & ~15):
            put(ranks, i, NO_RANK)
        count = _merge_by_scan(symbols, ranks, count, pairs, buckets, merged)
    else:
        dropout = U64(field(view, VIEW_DROPOUT))
        count = _merge_by_heap(work, symbols, ranks, count, pairs, buckets, merged, dropout)
    for i in range(count):
        put(symbols, i, id_of(at(symbols, i), ids, first_id))
    return count
