"""Stage 3: the table that remembers the ids of pretokens. Its entries are drawn in :mod:`numbatok.kernels.dtypes`."""

import numpy as np

from numbatok.kernels.dtypes import (
    ENTRY_WORDS,
    IN_ARENA,
    INLINE_IDS,
    LONG_KEY,
    LONGEST_CACHED,
    NEED_ARENA,
    NEED_TABLE,
    ONE,
    SHORT_KEY,
    U64,
    VIEW_MERGER,
    WORK_ARENA,
    WORK_ARENA_USED,
    WORK_MERGED_BYTES,
    WORK_MISSES,
    WORK_PIECE,
    WORK_SYMBOLS,
    WORK_TABLE,
    WORK_TABLE_LIMIT,
    WORK_TABLE_USED,
    ZERO,
)
from numbatok.kernels.intrinsics import array_at, at, call_kernel, field, put, set_field, store_u64, table
from numbatok.kernels.jit import helper, kernel
from numbatok.kernels.spans import key_hash

_HALF = np.uint64(32)
_LOW_HALF = np.uint64(0xFFFFFFFF)


@helper
def from_arena(arena, high, value, count, text, position, length, output, used):
    """Copy the ids of an entry whose ids are in the arena to ``output[used:]``; return how many.

    For a long pretoken the bytes are compared first: -1 if they differ, and the search goes on.
    """
    where = np.int64(value & _LOW_HALF)
    if high >= LONG_KEY:
        for i in range(length):
            word = at(arena, where + (i >> 2))
            if np.uint8(word >> np.uint32(8 * (i & 3))) != at(text, position + i):
                return np.int64(-1)
        where += (length + 3) >> 2
    ids = np.int64(count & ~IN_ARENA)
    for i in range(ids):
        put(output, used + i, at(arena, where + i))
    return ids


@helper
def learn(view, work, low, high, slot, text, position, length):
    """Merge a pretoken that the table does not hold, and enter it at ``slot``, an empty entry.

    Returns how many ids, left in ``WORK_SYMBOLS``, or a NEED_ status with nothing changed. The short pretoken is merged
    from its key, the long one from its copy in the arena: never from the text again, which may have changed.
    """
    used = field(work, WORK_TABLE_USED)
    arena = table(work, WORK_ARENA, np.uint32)
    arena_used = field(work, WORK_ARENA_USED)
    cached = length <= LONGEST_CACHED
    if cached and used >= field(work, WORK_TABLE_LIMIT):
        return np.int64(NEED_TABLE)
    words = (length + 3) >> 2 if length > SHORT_KEY else 0
    if cached and arena_used + words + length > len(arena):
        return np.int64(NEED_ARENA)

    merger = field(view, VIEW_MERGER)
    if length <= SHORT_KEY:
        piece = table(work, WORK_PIECE, np.uint8)
        store_u64(piece, 0, low)
        store_u64(piece, 8, high)
        count = call_kernel(merger, (view, work, field(work, WORK_PIECE), length))
    elif cached:
        source = array_at(text, position + length, np.uint8)
        for word in range(words):
            packed = np.uint32(0)
            for i in range(4 * word, min(4 * word + 4, length)):
                packed |= np.uint32(at(source, position + i)) << np.uint32(8 * (i & 3))
            put(arena, arena_used + word, packed)
        count = call_kernel(merger, (view, work, field(work, WORK_ARENA) + 4 * arena_used, length))
    else:
        count = call_kernel(merger, (view, work, text + position, length))
    if count < 0:
        return count
    set_field(work, WORK_MISSES, field(work, WORK_MISSES) + 1)
    set_field(work, WORK_MERGED_BYTES, field(work, WORK_MERGED_BYTES) + length)
    if not cached:
        return count

    entries = table(work, WORK_TABLE, np.uint64)
    symbols = table(work, WORK_SYMBOLS, np.uint32)
    at_entry = np.int64(slot) * ENTRY_WORDS
    put(entries, at_entry, low)
    put(entries, at_entry + 1, high)
    if length <= SHORT_KEY and count <= INLINE_IDS:
        ids = U64(at(symbols, 0))
        if count > 1:
            ids |= U64(at(symbols, 1)) << _HALF
        last = U64(count) << _HALF
        if count > 2:
            last |= U64(at(symbols, 2))
        put(entries, at_entry + 2, ids)
        put(entries, at_entry + 3, last)
    else:
        for i in range(count):
            put(arena, arena_used + words + i, at(symbols, i))
        put(entries, at_entry + 2, U64(arena_used))
        put(entries, at_entry + 3, U64(U64(IN_ARENA) | U64(count)) << _HALF)
        set_field(work, WORK_ARENA_USED, arena_used + words + count)
    set_field(work, WORK_TABLE_USED, used + 1)
    return count


@kernel("int64(int64, int64, int64, int64)")
def move_entries(old, old_entries, new, new_entries):
    """Enter everything of the table at address ``old`` into the empty, larger one at ``new``; returns how many.

    Both counts are powers of two. Entries keep their ids and arena positions.
    """
    source = array_at(old, old_entries * ENTRY_WORDS, np.uint64)
    target = array_at(new, new_entries * ENTRY_WORDS, np.uint64)
    shift = U64(64)
    n = new_entries
    while n > 1:
        n >>= 1
        shift -= ONE
    mask = U64(new_entries) - ONE
    moved = 0
    for entry in range(old_entries):
        high = at(source, entry * ENTRY_WORDS + 1)
        if high == ZERO:
            continue
        low = at(source, entry * ENTRY_WORDS)
        slot = key_hash(low, high) >> shift
        while at(target, np.int64(slot) * ENTRY_WORDS + 1) != ZERO:
            slot = (slot + ONE) & mask
        for i in range(ENTRY_WORDS):
            put(target, np.int64(slot) * ENTRY_WORDS + i, at(source, entry * ENTRY_WORDS + i))
        moved += 1
    return moved
