"""Stage 3: the table that remembers the ids of pretokens. Its entries are drawn in :mod:`numbatok.kernels.dtypes`."""

import numpy as np

from numbatok.kernels.dtypes import (
    ALL_ONES,
    DROPPED_KEY,
    FEW_IDS,
    GROUP,
    IN_ARENA,
    INLINE_IDS,
    LANE_BYTES,
    LARGEST_INLINE,
    LONG_KEY,
    MANY_IDS,
    NARROW_BASE,
    NARROW_WORDS,
    NEED_ARENA,
    NEED_NARROW,
    NEED_WIDE,
    ONE,
    OUTPUT_SLACK,
    SHORT_KEY,
    U64,
    VIEW_FURTHER,
    VIEW_IDS_PER_BYTE,
    VIEW_LONGEST_CACHED,
    VIEW_MERGER,
    VIEW_NOTER,
    VIEW_TOGETHER,
    WIDE_WORDS,
    WORK_ARENA,
    WORK_ARENA_USED,
    WORK_DONE,
    WORK_FROM_ARENA,
    WORK_GROUP_BEGIN,
    WORK_GROUP_COUNT,
    WORK_GROUP_TEXT,
    WORK_KEYS,
    WORK_MERGED_BYTES,
    WORK_MISSES,
    WORK_NARROW_LIMIT,
    WORK_NARROW_SHIFT,
    WORK_NARROW_USED,
    WORK_OUTPUT,
    WORK_OUTPUT_USED,
    WORK_PIECE,
    WORK_PLACES,
    WORK_POSITIONS,
    WORK_SYMBOLS,
    WORK_TABLE,
    WORK_WIDE_LIMIT,
    WORK_WIDE_SHIFT,
    WORK_WIDE_USED,
    ZERO,
)
from numbatok.kernels.intrinsics import (
    array_at,
    at,
    call_kernel,
    field,
    load_u64,
    prefetch,
    put,
    set_field,
    store_u64,
    table,
    trailing_zeros,
)
from numbatok.kernels.intrinsics_vector import copy_16_bytes, copy_masked_16
from numbatok.kernels.jit import helper, kernel
from numbatok.kernels.spans import place_of, wide_base_of

_COUNT_SHIFT = np.uint64(60)
_HALF = np.uint64(32)
_LOW_HALF = np.uint64(0xFFFFFFFF)
_ARENA_COUNT = np.uint64((1 << 28) - 1)
_IDS = np.uint64((1 << 60) - 1)
_FEW = np.uint64(7)
_MANY = np.uint64(int(IN_ARENA) | MANY_IDS << 60)
#: For the 16 bytes of up to four ids: all but the count, which stands above the second.
_FOUR_IDS = (_IDS, ALL_ONES)


@helper
def next_place(place, high, wide_base, words):
    """Index of the entry after ``place``, in the same part of the table of ``words`` words."""
    if high == ZERO:
        place += NARROW_WORDS
        return place if place < wide_base else np.int64(NARROW_BASE)
    place += WIDE_WORDS
    return place if place < words else wide_base


@helper
def _put_few(output, used, entries_address, arena_address, place, ids):
    """Write the up to four ids of the entry at ``place``, whose word of ids is ``ids``, to ``output[used:]``.

    Four are moved in any case, with no branch: from the entry, or from the arena. Returns how many they are.
    """
    in_entry = entries_address + 8 * (place + 1)
    in_arena = arena_address + 4 * np.int64(ids & _LOW_HALF)
    copy_masked_16(output, used, array_at(in_entry if ids < IN_ARENA else in_arena, 2, np.uint64), 0, _FOUR_IDS)
    return np.int64(ids >> _COUNT_SHIFT & _FEW)


@helper
def _put_from_arena(output, used, arena, where, count):
    """Write ``count`` ids from ``arena[where:]`` to ``output[used:]`` by fours: up to three more are moved."""
    for i in range(0, count, 4):
        copy_16_bytes(output, used + i, arena, where + i)


@helper
def _same_bytes(left, left_at, right, right_at, length):
    """Whether two runs of ``length >= 8`` bytes are equal: word by word, the last one overlapping."""
    for i in range(0, length - 8, 8):
        if load_u64(left, left_at + i) != load_u64(right, right_at + i):
            return False
    return load_u64(left, left_at + length - 8) == load_u64(right, right_at + length - 8)


@helper
def copy_bytes(target, target_at, source, source_at, length):
    """Copy ``length >= 8`` bytes, word by word, the last one overlapping."""
    for i in range(0, length - 8, 8):
        store_u64(target, target_at + i, load_u64(source, source_at + i))
    store_u64(target, target_at + length - 8, load_u64(source, source_at + length - 8))


@helper
def has_room(view, work, high, length, words):
    """0 where a pretoken of ``length`` bytes can be entered that takes ``words`` of the arena itself, or a NEED_."""
    if high == ZERO:
        if field(work, WORK_NARROW_USED) >= field(work, WORK_NARROW_LIMIT):
            return np.int64(NEED_NARROW)
    elif field(work, WORK_WIDE_USED) >= field(work, WORK_WIDE_LIMIT):
        return np.int64(NEED_WIDE)
    wanted = words + length * field(view, VIEW_IDS_PER_BYTE) + OUTPUT_SLACK
    if field(work, WORK_ARENA_USED) + wanted > field(work, WORK_ARENA + 1):
        return np.int64(NEED_ARENA)
    return np.int64(0)


@helper
def enter(work, low, high, place, length, words, count):
    """Enter a pretoken of ``length`` bytes, whose ``count`` ids are in ``WORK_SYMBOLS``, at ``place``, an empty entry.

    A long one's bytes stand in the next ``words`` of the arena already. There is room: :func:`has_room`.
    """
    arena = table(work, WORK_ARENA, np.uint32)
    arena_used = field(work, WORK_ARENA_USED)
    entries = table(work, WORK_TABLE, np.uint64)
    symbols = table(work, WORK_SYMBOLS, np.uint32)
    largest = np.uint32(0)
    for i in range(count):
        largest = max(largest, at(symbols, i))
    room = INLINE_IDS if high == ZERO else 2 * INLINE_IDS
    if length <= SHORT_KEY and count <= room and largest <= LARGEST_INLINE:
        ids = U64(count) << _COUNT_SHIFT
        more = ZERO
        for i in range(count):
            if i < INLINE_IDS:
                ids |= U64(at(symbols, i)) << U64(32 * i)
            else:
                more |= U64(at(symbols, i)) << U64(32 * (i - INLINE_IDS))
        if high != ZERO:
            put(entries, place + 2, more)
    else:
        for i in range(count):
            put(arena, arena_used + words + i, at(symbols, i))
        if length <= SHORT_KEY and count <= FEW_IDS and largest <= LARGEST_INLINE:
            ids = IN_ARENA | U64(count) << _COUNT_SHIFT | U64(arena_used)
        else:
            ids = _MANY | U64(count) << _HALF | U64(arena_used)
        set_field(work, WORK_ARENA_USED, arena_used + words + count)
    put(entries, place, low)
    put(entries, place + 1, ids)
    if high == ZERO:
        set_field(work, WORK_NARROW_USED, field(work, WORK_NARROW_USED) + 1)
    else:
        put(entries, place + 3, high)
        set_field(work, WORK_WIDE_USED, field(work, WORK_WIDE_USED) + 1)


@helper
def note_miss(work, length):
    """Count a pretoken of ``length`` bytes as one that was merged."""
    set_field(work, WORK_MISSES, field(work, WORK_MISSES) + 1)
    set_field(work, WORK_MERGED_BYTES, field(work, WORK_MERGED_BYTES) + length)


@helper
def learn(view, work, low, high, place, text, position, length):
    """Merge a pretoken that the table does not hold, and enter it at ``place``, an empty entry.

    Returns how many ids, left in ``WORK_SYMBOLS``, or a NEED_ status with nothing entered. What is entered is merged
    from the short pretoken's key or the long one's copy in the arena, never from the text, which may have changed.
    """
    if low == DROPPED_KEY and high == ZERO:
        if field(work, WORK_NARROW_USED) >= field(work, WORK_NARROW_LIMIT):
            return np.int64(NEED_NARROW)
        put(table(work, WORK_TABLE, np.uint64), place, low)  # the word of ids is zero: none
        set_field(work, WORK_NARROW_USED, field(work, WORK_NARROW_USED) + 1)
        return np.int64(0)
    cached = length <= field(view, VIEW_LONGEST_CACHED)
    words = (length + 3) >> 2 if cached and length > SHORT_KEY else np.int64(0)
    if cached:
        status = has_room(view, work, high, length, words)
        if status < 0:
            return status

    address = text + position
    if length <= SHORT_KEY:
        piece = table(work, WORK_PIECE, np.uint8)
        store_u64(piece, 0, low)
        store_u64(piece, 8, high)
        address = field(work, WORK_PIECE)
    elif cached:
        source = array_at(text, position + length, np.uint8)
        at_byte = 4 * field(work, WORK_ARENA_USED)
        bytes_ = array_at(field(work, WORK_ARENA), 4 * field(work, WORK_ARENA + 1), np.uint8)
        copy_bytes(bytes_, at_byte, source, position, length)
        address = field(work, WORK_ARENA) + at_byte
    count = call_kernel(field(view, VIEW_MERGER), (view, work, address, length))
    if count < 0:
        return count
    note_miss(work, length)
    if cached:
        enter(work, low, high, place, length, words, count)
    return count


@helper
def _bring_home(entries, home, place, high):
    """Exchange an entry that was found at ``place`` with the one where the search for it began.

    What stood there is still found: every entry from its own place to ``place`` is in use. So the frequent pretokens
    come to stand where they are found at once, and a table two thirds full costs few mispredicted branches.
    """
    for i in range(NARROW_WORDS if high == ZERO else WIDE_WORDS):
        word = at(entries, home + i)
        put(entries, home + i, at(entries, place + i))
        put(entries, place + i, word)


@kernel("int64(int64, int64, int64, int64, int64, int64, int64)")
def look_further(view, work, text, position, size, number, used):
    """What :func:`look_up` leaves to do for one pretoken, ``number`` of its group: search, copy from the arena, learn.

    The pretoken is ``text[position : position + size]``. Returns the new ``used``, or a NEED_ status.
    """
    keys = table(work, WORK_KEYS, np.uint64)
    entries = table(work, WORK_TABLE, np.uint64)
    output = table(work, WORK_OUTPUT, np.uint32)
    arena = table(work, WORK_ARENA, np.uint32)
    wide_base = wide_base_of(U64(field(work, WORK_NARROW_SHIFT)))
    low = at(keys, 2 * number)
    high = at(keys, 2 * number + 1)
    home = at(table(work, WORK_PLACES, np.int64), number)
    place = home
    while True:
        found_high = at(entries, place if high == ZERO else place + 3)
        if found_high == ZERO:
            group = field(work, WORK_GROUP_COUNT)
            if group > 0 and size <= LANE_BYTES:
                # With what else is new in the rest of the group; then it is here, or there was no room.
                set_field(work, WORK_GROUP_COUNT, np.int64(0))
                noted = call_kernel(field(view, VIEW_NOTER), (view, work, number, group, np.int64(0)))
                begin = field(work, WORK_GROUP_BEGIN)
                call_kernel(field(view, VIEW_TOGETHER), (view, work, field(work, WORK_GROUP_TEXT), begin, noted))
                continue
            made = learn(view, work, low, high, place, text, position, size)
            if made < 0:
                return made
            symbols = table(work, WORK_SYMBOLS, np.uint32)
            for i in range(made):
                put(output, used + i, at(symbols, i))
            return used + made
        if at(entries, place) == low and (high == ZERO or found_high == high):
            ids = at(entries, place + 1)
            same = True
            if ids >= _MANY:
                where = np.int64(ids & _LOW_HALF)
                count = np.int64(ids >> _HALF & _ARENA_COUNT)
                if high >= LONG_KEY:
                    bytes_ = array_at(field(work, WORK_ARENA), 4 * len(arena), np.uint8)
                    same = _same_bytes(bytes_, 4 * where, array_at(text, position + size, np.uint8), position, size)
                    where += (size + 3) >> 2
                if same:
                    _put_from_arena(output, used, arena, where, count)
            else:
                table_address, arena_address = field(work, WORK_TABLE), field(work, WORK_ARENA)
                count = _put_few(output, used, table_address, arena_address, place, ids)
            if same:
                if place != home:
                    _bring_home(entries, home, place, high)
                return used + count
        place = next_place(place, high, wide_base, len(entries))


@helper
def _found(keys, places, entries, number):
    """(place, differs, ids, high): the entry where the search for a pretoken begins, and whether it is another's.

    A narrow entry has no high word: its zero is compared with the table's first word, always zero.
    """
    high = at(keys, 2 * number + 1)
    place = at(places, number)
    high_place = place + 3 if high != ZERO else 0
    differs = (at(entries, place) ^ at(keys, 2 * number)) | (at(entries, high_place) ^ high)
    return place, differs, at(entries, place + 1), high


@kernel("int64(int64, int64, int64, int64, int64, int64, int64, int64)")
def look_up(view, work, text, length, base, begin, count, used):
    """Write the ids of the ``count`` pretokens that :func:`key_pretokens` keyed to ``WORK_OUTPUT``, from ``used`` on.

    ``text``, ``base`` and ``begin`` as there, with the text itself. The output has room for an id a byte, and
    OUTPUT_SLACK. Returns the new ``used``, or a NEED_ status with ``WORK_DONE`` and ``WORK_OUTPUT_USED`` set.

    The common case, a short pretoken found at once, has a loop of its own, so that it runs in registers: in one loop
    with what is rarer later passes over English took 5 to 9 % more. A branch that goes another way than the processor
    foresees costs about 10 ns, as it begins again with what follows. So where more than a quarter of the group before
    had more ids than their entry holds, as in Chinese with GPT-2, those with up to four go the way of those in the
    entry (4.8 instead of 6.4 ns); elsewhere that way is shorter (2.3 instead of 2.7 in English). At an eighth German
    took 13 % more.
    """
    keys = table(work, WORK_KEYS, np.uint64)
    places = table(work, WORK_PLACES, np.int64)
    entries = table(work, WORK_TABLE, np.uint64)
    output = table(work, WORK_OUTPUT, np.uint32)
    arena = table(work, WORK_ARENA, np.uint32)
    further = field(view, VIEW_FURTHER)
    many_in_arena = field(work, WORK_FROM_ARENA) != 0
    from_arena = np.int64(0)
    if many_in_arena:
        # Many of the group before had their ids in the arena, as where a vocabulary cuts a script into single bytes:
        # fetch those of this group together.
        for j in range(count):
            ids = at(entries, at(places, j) + 1)
            if ids >= IN_ARENA:
                prefetch(arena, np.int64(ids & _LOW_HALF))
                from_arena += 1
    table_address, arena_address = field(work, WORK_TABLE), field(work, WORK_ARENA)
    j = np.int64(0)
    while True:
        if many_in_arena:
            while j < count:
                place, differs, ids, high = _found(keys, places, entries, j)
                if differs != ZERO or ids >= _MANY:
                    break
                used += _put_few(output, used, table_address, arena_address, place, ids)
                j += 1
        else:
            while j < count:
                place, differs, ids, high = _found(keys, places, entries, j)
                if differs != ZERO or ids >= IN_ARENA:
                    break
                # Four are moved: a wide entry has up to four, and what else is moved from a narrow one does no harm.
                copy_masked_16(output, used, entries, place + 1, _FOUR_IDS)
                used += np.int64(ids >> _COUNT_SHIFT)
                j += 1
        if j == count:
            break
        place, differs, ids, high = _found(keys, places, entries, j)
        if differs == ZERO and ids < _MANY:
            used += _put_few(output, used, table_address, arena_address, place, ids)
            from_arena += 1
        elif differs == ZERO and high < LONG_KEY:
            many = np.int64(ids >> _HALF & _ARENA_COUNT)
            _put_from_arena(output, used, arena, np.int64(ids & _LOW_HALF), many)
            used += many
            from_arena += 1
        else:
            positions = table(work, WORK_POSITIONS, np.uint16)
            position = base + np.int64(at(positions, begin + j))
            size = base + np.int64(at(positions, begin + j + 1)) - position
            result = call_kernel(further, (view, work, text, position, size, j, used))
            if result < 0:
                set_field(work, WORK_DONE, j)
                set_field(work, WORK_OUTPUT_USED, used)
                return result
            used = result
        j += 1
    set_field(work, WORK_FROM_ARENA, np.int64(4 * from_arena > max(count, GROUP)))
    return used


@kernel("int64(int64, int64, int64, int64, int64)")
def move_entries(old, count, words, work, is_clear):
    """Enter what a part of a table holds into the same part of the scratch's; returns how many.

    Entries keep their ids and arena positions; where the new part is as large as the old their places, too.

    Parameters
    ----------
    old : address of the first of ``count`` entries
    words : of an entry, which says whether they are narrow or wide
    is_clear : 0 where the new part has anything in it, and is to be cleared. Fresh memory is written here first: a page
        of zeros that is read first, as that of a table is, is faulted in a second time when it is written, and then all
        processors are interrupted that run a thread of the process. For two workers that was a quarter of a first pass.
    """
    source = array_at(old, count * words, np.uint64)
    entries = table(work, WORK_TABLE, np.uint64)
    narrow_shift = U64(field(work, WORK_NARROW_SHIFT))
    wide_shift = U64(field(work, WORK_WIDE_SHIFT))
    wide_base = wide_base_of(narrow_shift)
    is_narrow = words == NARROW_WORDS
    first = np.int64(NARROW_BASE) if is_narrow else wide_base
    end = wide_base if is_narrow else len(entries)
    if end - first == count * words:
        for i in range(count * words):
            put(entries, first + i, at(source, i))
        return field(work, WORK_NARROW_USED if is_narrow else WORK_WIDE_USED)
    if is_clear == 0:
        for place in range(first, end):
            put(entries, place, ZERO)
    moved = np.int64(0)
    for begin in range(0, count, 64):
        # Which of 64 are in use is found without a branch, as a processor would guess half of them wrong: 25,000 in use
        # of 65,000 take 0.18 ms instead of 0.32.
        in_use = ZERO
        for i in range(min(count - begin, 64)):
            in_use |= U64(at(source, (begin + i) * words + (0 if is_narrow else 3)) != ZERO) << U64(i)
        while in_use != ZERO:
            entry = (begin + np.int64(trailing_zeros(in_use))) * words
            in_use &= in_use - ONE
            low = at(source, entry)
            high = ZERO if is_narrow else at(source, entry + 3)
            place = place_of(low, high, narrow_shift, wide_shift, wide_base)
            while at(entries, place if is_narrow else place + 3) != ZERO:
                place = next_place(place, high, wide_base, len(entries))
            for i in range(words):
                put(entries, place + i, at(source, entry + i))
            moved += 1
    return moved
