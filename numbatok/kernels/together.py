"""Stage 4 for many at once: the short pretokens of a group that the cache does not know, merged side by side.

A merge waits for what it has looked up, and that for the merge before; and which pair is next, and whether there is
one, a processor guesses wrong as often as not. So up to ``LANES`` pretokens take turns: for each the lowest rank is
found, the pair merged and the slots of its two new pairs fetched; then for each the two are looked up, with nothing to
guess. German with GPT-2 is merged in 150 ns a pretoken instead of 290.
"""

import numpy as np

from numbatok.kernels.cache import enter, has_room, next_place, note_miss
from numbatok.kernels.dtypes import (
    DROPPED_KEY,
    GROUP,
    LANE,
    LANES,
    LONG_KEY,
    NO_RANK,
    NO_SYMBOL,
    U64,
    VIEW_BYTE_PAIRS,
    VIEW_BYTE_SYMBOLS,
    VIEW_FIRST_MERGED,
    VIEW_IDS,
    VIEW_MERGED,
    VIEW_WHOLE_LIMIT,
    WORK_KEYS,
    WORK_LANES,
    WORK_NARROW_SHIFT,
    WORK_PIECE,
    WORK_PLACES,
    WORK_SYMBOLS,
    WORK_TABLE,
    ZERO,
)
from numbatok.kernels.intrinsics import array_at, at, field, prefetch, put, table
from numbatok.kernels.intrinsics_vector import copy_16_bytes, least_of_16
from numbatok.kernels.jit import helper, kernel
from numbatok.kernels.merge import find_token, made_by, pair_hash, pair_rank_unguessed, pair_tables
from numbatok.kernels.spans import wide_base_of

# A lane holds a pretoken's symbols from position 1 on, with NO_SYMBOL on both sides. What stands for the pair that
# begins at a position is ``rank << 4 | position``, so that the least of all says which to merge.
_POSITION_BITS = np.uint32(4)
_POSITION = np.uint32(15)
_NO_PAIR = np.uint32(0xFFFFFFF0)  # NO_RANK with a position, or what is greater
_LENGTH_SHIFT = np.uint64(56)
_BYTE = np.uint64(0xFF)
_EIGHT = np.uint64(8)
_AFTER = np.arange(1, LANE + 1, dtype=np.uint8)
_BEFORE = np.arange(LANE, dtype=np.uint8) - np.uint8(1)


@helper
def _length_of(low, high):
    """Bytes of the short pretoken with this key."""
    return np.int64((low if high == ZERO else high) >> _LENGTH_SHIFT)


@helper
def _find(work, number):
    """(place, found): where pretoken ``number`` of the group is in the table, or where it is to be entered."""
    entries = table(work, WORK_TABLE, np.uint64)
    keys = table(work, WORK_KEYS, np.uint64)
    low = at(keys, 2 * number)
    high = at(keys, 2 * number + 1)
    wide_base = wide_base_of(U64(field(work, WORK_NARROW_SHIFT)))
    place = at(table(work, WORK_PLACES, np.int64), number)
    while True:
        found_high = at(entries, place if high == ZERO else place + 3)
        if found_high == ZERO:
            return place, False
        if at(entries, place) == low and (high == ZERO or found_high == high):
            return place, True
        place = next_place(place, high, wide_base, len(entries))


@helper
def _enter_here(view, work, number, count):
    """Enter pretoken ``number`` of the group, whose ``count`` ids are in ``WORK_SYMBOLS``; whether there was room."""
    keys = table(work, WORK_KEYS, np.uint64)
    low = at(keys, 2 * number)
    high = at(keys, 2 * number + 1)
    length = _length_of(low, high)
    place, found = _find(work, number)  # the group may have had it twice
    if not found:
        if has_room(view, work, high, length, np.int64(0)) < 0:
            return False
        enter(work, low, high, place, length, np.int64(0), count)
        note_miss(work, length)
    return True


@helper
def _begin(view, keys, number, symbols, pairs, after, before, base):
    """Put the bytes of pretoken ``number`` of the group to the lane at ``base``."""
    byte_symbols = table(view, VIEW_BYTE_SYMBOLS, np.uint32)
    byte_pairs = table(view, VIEW_BYTE_PAIRS, np.uint32)
    for i in range(0, LANE, 16):
        copy_16_bytes(after, base + i, _AFTER, i)
        copy_16_bytes(before, base + i, _BEFORE, i)
    for position in range(LANE // 2 + 1):
        put(pairs, base + position, NO_RANK)
    rest = at(keys, 2 * number)
    high = at(keys, 2 * number + 1)
    length = _length_of(rest, high)
    previous = np.int64(rest & _BYTE)
    put(symbols, base, NO_SYMBOL)
    put(symbols, base + 1, at(byte_symbols, previous))
    for position in range(1, length):
        rest = rest >> _EIGHT if position != 8 else high
        byte = np.int64(rest & _BYTE)
        put(symbols, base + position + 1, at(byte_symbols, byte))
        put(pairs, base + position, at(byte_pairs, previous << 8 | byte) << _POSITION_BITS | np.uint32(position))
        previous = byte
    put(symbols, base + length + 1, NO_SYMBOL)


@kernel("int64(int64, int64, int64)")
def learn_together(view, work, count):
    """Learn those of the ``count`` pretokens that :func:`key_pretokens` keyed which are short and not in the table.

    Where there is no room for one, it and the others are left for :func:`cache.look_further`, which says so. Returns
    how many were to be merged: not in the table, and no tokens as they are.
    """
    keys = table(work, WORK_KEYS, np.uint64)
    places = table(work, WORK_PLACES, np.int64)
    entries = table(work, WORK_TABLE, np.uint64)
    ids = table(view, VIEW_IDS, np.uint32)
    ready = table(work, WORK_SYMBOLS, np.uint32)
    lanes = field(work, WORK_LANES)
    symbols = array_at(lanes, LANES * LANE, np.uint32)
    pairs = array_at(lanes + 4 * LANES * LANE, LANES * LANE, np.uint32)
    after = array_at(lanes + 8 * LANES * LANE, LANES * LANE, np.uint8)
    before = array_at(lanes + 9 * LANES * LANE, LANES * LANE, np.uint8)
    absent = array_at(lanes + 10 * LANES * LANE, GROUP, np.int64)
    # Of each lane that is in use: where it begins, the position that was merged last, and the number of its pretoken.
    active = array_at(lanes + 10 * LANES * LANE + 8 * GROUP, LANES, np.int64)
    where = array_at(lanes + 10 * LANES * LANE + 8 * GROUP + 8 * LANES, LANES, np.int64)
    whose = array_at(lanes + 10 * LANES * LANE + 8 * GROUP + 16 * LANES, LANES, np.int64)

    # First those that are not found at once, without a branch; of them those that are not found at all.
    suspects = np.int64(0)
    for j in range(count):
        high = at(keys, 2 * j + 1)
        place = at(places, j)
        high_place = place + 3 if high != ZERO else 0
        differs = (at(entries, place) ^ at(keys, 2 * j)) | (at(entries, high_place) ^ high)
        put(absent, suspects, j)
        suspects += np.int64(differs != ZERO)
    waiting = np.int64(0)
    piece = table(work, WORK_PIECE, np.uint8)
    whole_limit = field(view, VIEW_WHOLE_LIMIT)
    for i in range(suspects):
        number = at(absent, i)
        low = at(keys, 2 * number)
        high = at(keys, 2 * number + 1)
        if high >= LONG_KEY or (low == DROPPED_KEY and high == ZERO):
            continue
        _, found = _find(work, number)
        if found:
            continue
        length = _length_of(low, high)
        if length <= whole_limit:
            token = find_token(view, low, high, piece, 0, length)
            if token >= 0:
                put(ready, 0, at(ids, token))
                if not _enter_here(view, work, number, 1):
                    return waiting
                continue
        put(absent, waiting, number)
        waiting += 1

    slots, shift, bits, bits_shift = pair_tables(view)
    merged = table(view, VIEW_MERGED, np.uint32)
    first = field(view, VIEW_FIRST_MERGED)
    in_use = min(waiting, LANES)
    for lane in range(in_use):
        put(active, lane, LANE * lane)
        put(whose, lane, at(absent, lane))
        _begin(view, keys, at(absent, lane), symbols, pairs, after, before, LANE * lane)
    begun = in_use
    while in_use > 0:
        turn = np.int64(0)
        while turn < in_use:
            base = at(active, turn)
            least = least_of_16(pairs, base + 1)
            if least >= _NO_PAIR:
                number = at(whose, turn)
                made = np.int64(0)
                position = np.int64(1)
                while at(symbols, base + position) != NO_SYMBOL:
                    put(ready, made, at(ids, at(symbols, base + position)))
                    made += 1
                    position = np.int64(at(after, base + position))
                if not _enter_here(view, work, number, made):
                    return waiting
                if begun < waiting:
                    put(whose, turn, at(absent, begun))
                    _begin(view, keys, at(absent, begun), symbols, pairs, after, before, base)
                    begun += 1
                else:
                    in_use -= 1
                    put(active, turn, at(active, in_use))
                    put(whose, turn, at(whose, in_use))
                continue
            position = np.int64(least & _POSITION)
            made_symbol = made_by(least >> _POSITION_BITS, merged, first)
            gone = np.int64(at(after, base + position))
            right = np.int64(at(after, base + gone))
            left = np.int64(at(before, base + position))
            put(after, base + position, np.uint8(right))
            put(before, base + right, np.uint8(position))
            put(pairs, base + gone, NO_RANK)
            put(symbols, base + position, made_symbol)
            prefetch(slots, np.int64(pair_hash(at(symbols, base + left), made_symbol) >> shift))
            prefetch(slots, np.int64(pair_hash(made_symbol, at(symbols, base + right)) >> shift))
            put(where, turn, position)
            turn += 1
        for turn in range(in_use):
            base = at(active, turn)
            position = base + at(where, turn)
            left = np.int64(at(before, position))
            made_symbol = at(symbols, position)
            rank = pair_rank_unguessed(
                slots, shift, bits, bits_shift, made_symbol, at(symbols, base + np.int64(at(after, position)))
            )
            put(pairs, position, rank << _POSITION_BITS | np.uint32(position - base))
            rank = pair_rank_unguessed(slots, shift, bits, bits_shift, at(symbols, base + left), made_symbol)
            put(pairs, base + left, rank << _POSITION_BITS | np.uint32(left))
    return waiting
