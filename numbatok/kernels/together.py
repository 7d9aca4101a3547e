"""Stage 4 for many at once: the pretokens of a group that the cache does not know, merged side by side.

A merge waits for what it has looked up, and that for the merge before; and which pair is next, and whether there is
one, a processor guesses wrong as often as not. So up to ``LANES`` pretokens take turns: for each the lowest rank is
found, the pair merged and the slots of its two new pairs fetched; then for each the two are looked up, with nothing to
guess. German with GPT-2 is merged in 150 ns a pretoken instead of 290.
"""

import numpy as np

from numbatok.kernels.cache import copy_bytes, enter, has_room, next_place, note_miss
from numbatok.kernels.dtypes import (
    LANE,
    LANE_BYTES,
    LANES,
    LARGE_GROUP,
    LONG_KEY,
    NO_RANK,
    NO_SYMBOL,
    NOTED_SLOTS,
    SHORT_KEY,
    U64,
    VIEW_BYTE_PAIRS,
    VIEW_BYTE_SYMBOLS,
    VIEW_MERGED,
    VIEW_WHOLE_LIMIT,
    WORK_ARENA,
    WORK_ARENA_USED,
    WORK_KEYS,
    WORK_LANES,
    WORK_NARROW_SHIFT,
    WORK_PLACES,
    WORK_POSITIONS,
    WORK_SYMBOLS,
    WORK_TABLE,
    ZERO,
)
from numbatok.kernels.intrinsics import array_at, at, field, put, store_u64, table
from numbatok.kernels.intrinsics_vector import copy_16_bytes, copy_64_bytes, least_of_16, least_of_32
from numbatok.kernels.jit import helper, kernel
from numbatok.kernels.merge import (
    fetch_pair,
    fetch_token,
    find_token,
    id_of,
    id_tables,
    made_by,
    may_be_token,
    pair_rank,
    pair_tables,
)
from numbatok.kernels.spans import wide_base_of

# A lane holds a pretoken's symbols from position 1 on, with NO_SYMBOL on both sides. What stands for the pair that
# begins at a position is ``rank << 5 | position``, so that the least of all says which to merge.
_POSITION_BITS = np.uint32(5)
_POSITION = np.uint32(31)
_NO_PAIR = np.uint32(0xFFFFFFE0)  # NO_RANK with a position, or what is greater
_NEAR = 16  # bytes of the longest pretoken all of whose pairs begin at the first 16 positions
_LENGTH_SHIFT = np.uint64(56)
_LENGTH = np.uint64((1 << 56) - 1)
_AFTER = np.arange(1, LANE + 1, dtype=np.uint8)
_BEFORE = np.arange(LANE, dtype=np.uint8) - np.uint8(1)
_NO_PAIRS = np.full(16, NO_RANK)

# Where in ``WORK_LANES`` what stands after the symbols.
_PAIRS = 4 * LANES * LANE
_AFTERS = 8 * LANES * LANE
_BEFORES = 9 * LANES * LANE
_BYTES = 10 * LANES * LANE
_ACTIVE = 11 * LANES * LANE
_WHERE = _ACTIVE + 8 * LANES
_WHOSE = _WHERE + 8 * LANES
_ABSENT = _WHOSE + 8 * LANES
_CANDIDATES = _ABSENT + 2 * LARGE_GROUP
_NOTED = _CANDIDATES + 2 * LARGE_GROUP


@helper
def _length_of(low, high):
    """Bytes of the pretoken with this key; for that of removed pieces more than any lane holds."""
    return np.int64(high & _LENGTH if high >= LONG_KEY else (low if high == ZERO else high) >> _LENGTH_SHIFT)


@helper
def _find(work, number):
    """(place, found): where pretoken ``number`` of the group is in the table, or where it is to be entered.

    By its key alone: whether a long one has the bytes that are sought is for :func:`cache.look_further` to see.
    """
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
def _lanes_of(work):
    """(symbols, pairs, after, before, bytes): what lanes hold, LANE elements each; of each position its neighbours.

    Made of an address wherever it is used: passed to a function five arrays are 35 words on the stack.
    """
    lanes = field(work, WORK_LANES)
    return (
        array_at(lanes, LANES * LANE, np.uint32),
        array_at(lanes + _PAIRS, LANES * LANE, np.uint32),
        array_at(lanes + _AFTERS, LANES * LANE, np.uint8),
        array_at(lanes + _BEFORES, LANES * LANE, np.uint8),
        array_at(lanes + _BYTES, LANES * LANE, np.uint8),
    )


@helper
def _enter_here(view, work, number, first, count):
    """Enter pretoken ``number`` of the group, from the lane at ``first``: its ``count`` ids are in ``WORK_SYMBOLS``.

    Returns whether there was room. The bytes of a short one are in its key and not read from a lane.
    """
    keys = table(work, WORK_KEYS, np.uint64)
    low = at(keys, 2 * number)
    high = at(keys, 2 * number + 1)
    length = _length_of(low, high)
    place, found = _find(work, number)  # the group may have had it twice
    if not found:
        words = (length + 3) >> 2 if length > SHORT_KEY else np.int64(0)
        if has_room(view, work, high, length, words) < 0:
            return False
        if words > 0:
            _, _, _, _, bytes_ = _lanes_of(work)
            arena = array_at(field(work, WORK_ARENA), 4 * field(work, WORK_ARENA + 1), np.uint8)
            copy_bytes(arena, 4 * field(work, WORK_ARENA_USED), bytes_, first, length)
        enter(work, low, high, place, length, words, count)
        note_miss(work, length)
    return True


@helper
def _begin(view, work, low, high, address, first):
    """Put a pretoken to the lane at ``first``: from its key, or a longer one from ``address``, read once.

    Returns its length.
    """
    symbols, pairs, after, before, bytes_ = _lanes_of(work)
    byte_symbols = table(view, VIEW_BYTE_SYMBOLS, np.uint32)
    byte_pairs = table(view, VIEW_BYTE_PAIRS, np.uint32)
    for i in range(0, LANE, 16):
        copy_16_bytes(after, first + i, _AFTER, i)
        copy_16_bytes(before, first + i, _BEFORE, i)
    copy_64_bytes(pairs, first, _NO_PAIRS, 0)
    copy_64_bytes(pairs, first + 16, _NO_PAIRS, 0)
    length = _length_of(low, high)
    if length <= SHORT_KEY:
        store_u64(bytes_, first, low)
        store_u64(bytes_, first + 8, high)
    else:
        copy_bytes(bytes_, first, array_at(address, length, np.uint8), 0, length)
    previous = np.int64(at(bytes_, first))
    put(symbols, first, NO_SYMBOL)
    put(symbols, first + 1, at(byte_symbols, previous))
    for i in range(1, length):
        byte = np.int64(at(bytes_, first + i))
        put(symbols, first + i + 1, at(byte_symbols, byte))
        put(pairs, first + i, at(byte_pairs, previous << 8 | byte) << _POSITION_BITS | np.uint32(i))
        previous = byte
    put(symbols, first + length + 1, NO_SYMBOL)
    return length


@kernel("int64(int64, int64, int64, int64, int64)")
def note_new(view, work, first, end, noted):
    """Note those of the group's pretokens ``first`` to ``end`` that are not in the table, up to LANE_BYTES long.

    :func:`key_pretokens` has keyed them. ``noted`` of the group are noted already; which of them recur is not always
    seen. Returns how many are noted now, for :func:`learn_together`.
    """
    keys = table(work, WORK_KEYS, np.uint64)
    places = table(work, WORK_PLACES, np.int64)
    entries = table(work, WORK_TABLE, np.uint64)
    lanes = field(work, WORK_LANES)
    absent = array_at(lanes + _ABSENT, LARGE_GROUP, np.uint16)
    suspects = array_at(lanes + _CANDIDATES, LARGE_GROUP, np.uint16)
    seen = array_at(lanes + _NOTED, NOTED_SLOTS, np.uint16)

    # First those that are not found at once, without a branch; of them those that are not found at all.
    count = np.int64(0)
    for j in range(first, end):
        high = at(keys, 2 * j + 1)
        place = at(places, j)
        high_place = place + 3 if high != ZERO else 0
        differs = (at(entries, place) ^ at(keys, 2 * j)) | (at(entries, high_place) ^ high)
        put(suspects, count, np.uint16(j))
        count += np.int64(differs != ZERO)
    for i in range(count):
        number = np.int64(at(suspects, i))
        low = at(keys, 2 * number)
        high = at(keys, 2 * number + 1)
        if _length_of(low, high) > LANE_BYTES:
            continue
        # What is new is often there again soon. What a slot holds may be left of another group: its key is compared.
        slot = at(places, number) >> 1 & NOTED_SLOTS - 1
        before = np.int64(at(seen, slot))
        if before < number and at(keys, 2 * before) == low and at(keys, 2 * before + 1) == high:
            continue
        _, found = _find(work, number)
        if not found:
            fetch_token(view, low, high)
            put(seen, slot, np.uint16(number))
            put(absent, noted, np.uint16(number))
            noted += 1
    return noted


@kernel("int64(int64, int64, int64, int64, int64)")
def learn_together(view, work, text, begin, noted):
    """Learn those of the group's pretokens that :func:`note_new` has noted.

    Pretoken j of the group begins at address ``text + positions[begin + j]``. Where there is no room for one, it and
    the others are left for :func:`cache.look_further`, which says so. Returns how many were to be merged: no tokens as
    they are.
    """
    positions = table(work, WORK_POSITIONS, np.uint16)
    keys = table(work, WORK_KEYS, np.uint64)
    ids, first_id = id_tables(view)
    ready = table(work, WORK_SYMBOLS, np.uint32)
    symbols, pairs, after, before, bytes_ = _lanes_of(work)
    lanes = field(work, WORK_LANES)
    # Where lanes begin, those in use first; of these the position that was merged last, and the pretoken's number.
    active = array_at(lanes + _ACTIVE, LANES, np.int64)
    where = array_at(lanes + _WHERE, LANES, np.int64)
    whose = array_at(lanes + _WHOSE, LANES, np.int64)
    absent = array_at(lanes + _ABSENT, LARGE_GROUP, np.uint16)
    candidates = array_at(lanes + _CANDIDATES, LARGE_GROUP, np.uint16)

    # First those that are tokens as they are, if the vocabulary asks for them. What is read for one does not wait for
    # what is read for another: English books with GPT-2 take a tenth less so.
    waiting = noted
    whole_limit = field(view, VIEW_WHOLE_LIMIT)
    if whole_limit > 0:
        waiting = np.int64(0)
        may_be = np.int64(0)
        for i in range(noted):
            number = np.int64(at(absent, i))
            is_one = may_be_token(view, at(keys, 2 * number), at(keys, 2 * number + 1))
            put(candidates, may_be, np.uint16(number))
            put(absent, waiting, np.uint16(number))
            may_be += np.int64(is_one)
            waiting += np.int64(not is_one)
        for i in range(may_be):
            number = np.int64(at(candidates, i))
            low = at(keys, 2 * number)
            high = at(keys, 2 * number + 1)
            size = _length_of(low, high)
            token = np.int64(-1)
            if size <= whole_limit:
                if size > SHORT_KEY:
                    continue  # its bytes would have to be compared: so few are left for look_further too
                token = find_token(view, low, high, bytes_, 0, size)
            if token >= 0:
                put(ready, 0, id_of(token, ids, first_id))
                if not _enter_here(view, work, number, 0, 1):
                    return waiting
            else:
                put(absent, waiting, np.uint16(number))
                waiting += 1

    slots, buckets = pair_tables(view)
    merged = table(view, VIEW_MERGED, np.uint32)
    for lane in range(LANES):
        put(active, lane, LANE * lane)
    begun = np.int64(0)
    in_use = np.int64(0)
    far_in_use = np.int64(0)  # of the lanes in use, those with pairs beyond the first 16
    while True:
        while in_use < LANES and begun < waiting:
            number = np.int64(at(absent, begun))
            low = at(keys, 2 * number)
            high = at(keys, 2 * number + 1)
            address = text + np.int64(at(positions, begin + number))
            size = _begin(view, work, low, high, address, at(active, in_use))
            put(whose, in_use, number)
            far_in_use += np.int64(size > _NEAR)
            in_use += 1
            begun += 1
        if in_use == 0:
            return waiting
        turn = np.int64(0)
        while turn < in_use:
            first = at(active, turn)
            least = least_of_32(pairs, first) if far_in_use > 0 else least_of_16(pairs, first)
            if least >= _NO_PAIR:
                made = np.int64(0)
                position = np.int64(1)
                while at(symbols, first + position) != NO_SYMBOL:
                    put(ready, made, id_of(at(symbols, first + position), ids, first_id))
                    made += 1
                    position = np.int64(at(after, first + position))
                number = at(whose, turn)
                if not _enter_here(view, work, number, first, made):
                    return waiting
                far_in_use -= np.int64(_length_of(at(keys, 2 * number), at(keys, 2 * number + 1)) > _NEAR)
                in_use -= 1
                put(active, turn, at(active, in_use))
                put(whose, turn, at(whose, in_use))
                put(active, in_use, first)
                continue
            position = np.int64(least & _POSITION)
            made_symbol = made_by(least >> _POSITION_BITS, merged)
            gone = np.int64(at(after, first + position))
            right = np.int64(at(after, first + gone))
            left = np.int64(at(before, first + position))
            put(after, first + position, np.uint8(right))
            put(before, first + right, np.uint8(position))
            put(pairs, first + gone, NO_RANK)
            put(symbols, first + position, made_symbol)
            fetch_pair(slots, buckets, at(symbols, first + left), made_symbol)
            fetch_pair(slots, buckets, made_symbol, at(symbols, first + right))
            put(where, turn, position)
            turn += 1
        for turn in range(in_use):
            first = at(active, turn)
            position = first + at(where, turn)
            left = np.int64(at(before, position))
            made_symbol = at(symbols, position)
            rank = pair_rank(slots, buckets, made_symbol, at(symbols, first + np.int64(at(after, position))))
            put(pairs, position, rank << _POSITION_BITS | np.uint32(position - first))
            rank = pair_rank(slots, buckets, at(symbols, first + left), made_symbol)
            put(pairs, first + left, rank << _POSITION_BITS | np.uint32(left))
