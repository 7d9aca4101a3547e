"""Stage 1 for any split rule: one kernel that runs the tables of :mod:`numbatok.patterns.compile`.

The contract is that of :mod:`numbatok.kernels.starts`, and besides:

* where ``VIEW_DROPS`` is 1 the walk also fills ``WORK_DROPPED``: a bit at the start of each piece that is dropped;
* of a rule of several steps, ``decided`` is a start from which a fresh walk continues all steps, as one does from all
  starts of the first step; it is ``base`` if no other is known within the blocks; with ``WORK_COARSE`` that step alone
  is walked;
* ``NEED_MARKS`` may be returned instead: then ``WORK_NEEDED`` words are wanted in ``WORK_MARKS``, and the walk begun
  anew.

A table has a row for each state of the scanner and a column for each class of characters; see
:mod:`numbatok.patterns.scanner` and the constants there for what an entry says. One load a byte is all that depends on
the one before; whether pieces begin is shifted into words without a branch. The steps that one table can't hold run as
further groups over the same bitmap: that a piece begins at a character is one more thing that its column says.

What the kernel does about a *fork* and a *meeting* is said in that module too.
"""

import numpy as np

from numbatok.kernels.dtypes import (
    ALL_ONES,
    NEED_MARKS,
    ONE,
    VIEW_CLASSES,
    VIEW_DROPS,
    VIEW_PROGRAM,
    WORK_COARSE,
    WORK_DROPPED,
    WORK_MARKS,
    WORK_NEEDED,
    WORK_STARTS,
    ZERO,
)
from numbatok.kernels.intrinsics import (
    array_at,
    at,
    at_sum,
    field,
    leading_zeros,
    load_u64,
    put,
    set_field,
    table,
    trailing_zeros,
)
from numbatok.kernels.intrinsics_vector import range_mask
from numbatok.kernels.jit import helper, kernel
from numbatok.kernels.starts import character_at, is_set, set_bit
from numbatok.patterns import compile as layout
from numbatok.patterns import scanner

_U8 = np.uint8
_HIGH_BITS = np.uint64(0x8080808080808080)
_FURTHEST_BACK = scanner.FURTHEST_BACK
_PIECES = np.uint64((1 << scanner.BACK_BITS) - 1)
_HERE = np.uint64(1 << scanner.FURTHEST_BACK)  # a piece begins at the character read
_DROPPED_SHIFT = np.uint64(scanner.BACK_BITS)
_MEETING_SHIFT = np.uint64(2 * scanner.BACK_BITS)
_FORK = np.uint32(scanner.FORK)
_FAIL = np.uint32(scanner.FAIL)
_ACTIONS = np.uint32(scanner.FORK | scanner.FAIL)

RUN = 64 - _FURTHEST_BACK - 1  # bytes of ASCII read at once: with those before them, their bits fit a word
FREE_OVERRUN = 4096  # bytes read again before failed overruns are marked


@helper
def _or_bits(bitmap, place, bits):
    """Set the bits of a word in a bitmap, from a place on that may be up to 63 below zero (those bits are zero)."""
    if place < 0:
        bits >>= np.uint64(-place)
        place = np.int64(0)
    word = place >> 6
    shift = np.uint64(place & 63)
    put(bitmap, word, at(bitmap, word) | bits << shift)
    high = bits >> ONE >> (np.uint64(63) - shift)
    put(bitmap, word + 1, at(bitmap, word + 1) | high)


@helper
def _bits_from(bitmap, place):
    """The 64 bits of a bitmap from a place on."""
    shift = np.uint64(place & 63)
    return at(bitmap, place >> 6) >> shift | at(bitmap, (place >> 6) + 1) << ONE << (np.uint64(63) - shift)


@helper
def _bits_until(bitmap, place):
    """The 64 bits of a bitmap up to a place and with it; those below zero are zero."""
    shift = np.uint64(63 - (place & 63))
    bits = at(bitmap, place >> 6) << shift
    if place >= 64:
        bits |= at(bitmap, (place >> 6) - 1) >> ONE >> (np.uint64(63) - shift)
    return bits


@helper
def _take_back(bitmap, place, bits, end):
    """Let the 64 bits up to ``place`` be those of ``bits`` again, and the ones between it and ``end`` zero."""
    first = max(place - 63, 0)
    word = first >> 6
    kept = at(bitmap, word) & ~(ALL_ONES << np.uint64(first & 63))
    last = end >> 6
    after = at(bitmap, last) & ALL_ONES << np.uint64(end & 63)
    for between in range(word, last + 1):
        put(bitmap, between, ZERO)
    put(bitmap, word, kept)
    put(bitmap, last, at(bitmap, last) | after)
    _or_bits(bitmap, place - 63, bits)


@helper
def _one(source, position, stop, is_spelled):
    """(code point, bytes) of what a step reads at ``position``: a character, or a byte where it is spelled."""
    if is_spelled:
        return np.int64(at(source, position)), np.int64(1)
    return character_at(source, position, stop)


@helper
def _back_from(source, position, count, floor, is_spelled):
    """Where the character begins that is so many before the one at ``position``; not before ``floor``."""
    while count > 0 and position > floor:
        position -= 1
        while not is_spelled and position > floor and at(source, position) & 0xC0 == 0x80:
            position -= 1
        count -= 1
    return position


@helper
def _put_pieces(bitmap, pieces, source, position, base, is_spelled):
    """Set the bits of pieces that begin at ``position`` or at characters before it, those that an entry names."""
    if pieces == _HERE:
        set_bit(bitmap, position - base)
    elif pieces != ZERO:
        before = ZERO - ONE  # bytes of the 16 before, of which those that are no ASCII say that it is not so simple
        if position - base >= 16:
            before = load_u64(source, position - 8) | load_u64(source, position - 16)
        if before & _HIGH_BITS == ZERO:
            _or_bits(bitmap, position - _FURTHEST_BACK - base, pieces)
        else:
            while pieces != ZERO:
                bit = np.int64(trailing_zeros(pieces))
                set_bit(bitmap, _back_from(source, position, _FURTHEST_BACK - bit, base, is_spelled) - base)
                pieces &= pieces - ONE


@helper
def _last_of(pieces, source, position, base, is_spelled):
    """Where the last piece begins of those that an entry names; some are named."""
    back = _FURTHEST_BACK - 63 + np.int64(leading_zeros(pieces))
    return _back_from(source, position, back, base, is_spelled)


@helper
def _decided(starts, dropped, bit, drops):
    """Where the columns begin of what is decided about a character, by whose place in the bitmaps: see layout."""
    if not is_set(starts, bit):
        return np.int64(0)
    if drops and is_set(dropped, bit):
        return np.int64(2 * layout.COLUMNS)
    return np.int64(layout.COLUMNS)


@helper
def _put_run(bitmap, pieces, source, position, base, plain, is_spelled):
    """Set the bits of pieces, of which bit _FURTHEST_BACK is ``position`` and those above are the bytes after it."""
    if position - plain < _FURTHEST_BACK:  # not all of the characters before are of one byte
        early = pieces & _PIECES >> ONE
        _put_pieces(bitmap, early, source, position, base, is_spelled)
        pieces ^= early
    if pieces != ZERO:
        _or_bits(bitmap, position - _FURTHEST_BACK - base, pieces)


@helper
def _read_run(source, position, run, columns, cells, row, refines, begun, gone, tells_more):
    """(pieces, dropped ones, meetings, bytes read, row) of characters of one byte, up to an entry with an action.

    Bit _FURTHEST_BACK of the three words is the byte at ``position``; the second and third are told if ``tells_more``.
    If the group ``refines``, ``begun`` and ``gone`` have the bits of pieces, and of dropped ones, that begin by the
    steps before.
    """
    pieces = dropped = meeting = ZERO
    i = np.int64(0)
    while i < run:
        place = np.int64(at(source, position + i))
        if refines:
            place += np.int64(((begun >> np.uint64(i) & ONE) + (gone >> np.uint64(i) & ONE)) << np.uint64(8))
        column = np.int64(at(columns, place))
        flags = at_sum(cells, column, row)
        if flags & _ACTIONS != np.uint32(0):
            break
        row = np.int64(at_sum(cells, column + 1, row))
        said = np.uint64(flags)
        pieces |= (said & _PIECES) << np.uint64(i)
        if tells_more:
            dropped |= (said >> _DROPPED_SHIFT & _PIECES) << np.uint64(i)
            meeting |= (said >> _MEETING_SHIFT) << np.uint64(i)
        i += 1
    return pieces, dropped, meeting, i, row


@helper
def _fails(cells, width, row, position, failed):
    """Whether an overrun in this row before the character at ``position`` is known to fail.

    ``failed`` is the kind of row and the first and last position of the overrun that was last seen to fail.
    """
    kind, first, last = failed
    return first <= position <= last and np.int64(at(cells, row + width - 3)) == kind


@helper
def _read_characters(source, position, end, stop, classes, group, row, starts, dropped, base, drops, failed):
    """(last meeting or -1, end, row) of reading characters up to an entry with an action, or eight of ASCII.

    ``end`` is at least seven bytes before the end of what may be read. A fork to what is known to fail is no action,
    and those are looked for in ASCII too.
    """
    columns, of_classes, cells, width, refines = group
    meeting = np.int64(-1)
    while position < end:
        lead = np.int64(at(source, position))
        decided = np.int64(0)
        if refines:
            decided = _decided(starts, dropped, position - base, drops)
        size = np.int64(1)
        if lead < 0x80:
            if position > failed[2] and load_u64(source, position) & _HIGH_BITS == ZERO:
                break
            column = np.int64(at(columns, lead + decided))
        else:
            code_point, size = character_at(source, position, stop)
            column = np.int64(at(columns, of_classes + np.int64(at(classes, code_point)) + decided))
        flags = at_sum(cells, column, row)
        after = np.int64(at_sum(cells, column + 1, row))
        if flags & _ACTIONS != np.uint32(0):
            while flags & _FORK != np.uint32(0) and _fails(cells, width, after, position + size, failed):
                flags = at(cells, after + width - 2)
                after = np.int64(at(cells, after + width - 1))
            if flags & _ACTIONS != np.uint32(0):
                break
        row = after
        if flags != np.uint32(0):
            said = np.uint64(flags)
            _put_pieces(starts, said & _PIECES, source, position, base, False)
            if drops:
                _put_pieces(dropped, said >> _DROPPED_SHIFT & _PIECES, source, position, base, False)
            met = said >> _MEETING_SHIFT
            if met != ZERO:
                meeting = _last_of(met, source, position, base, False)
        position += size
    return meeting, position, row


@helper
def _scan(view, work, text, length, stop, group, base, limit, is_end):
    """Mark the pieces of a group of steps in ``text[base:limit]``, where the text ends for it or not.

    Returns the last meeting, ``base`` if there is none, or NEED_MARKS.

    That an overrun fails is known for all characters from the one after its fork on, if its rows were of one kind: of a
    word of n letters that is only seen at its end to be no match, the end is looked for once and not n times. Once
    failed overruns have cost twice the text and ``FREE_OVERRUN`` bytes more nevertheless, each (far row, position) from
    which one failed is marked, and none is followed from there again: so the time stays linear (Reps, "'Maximal-munch'
    tokenization in linear time", 1998). Ordinary text in ordinary rules never comes to that.
    """
    source = array_at(text, length, np.uint8)
    starts = table(work, WORK_STARTS, np.uint64)
    dropped = table(work, WORK_DROPPED, np.uint64)
    drops = field(view, VIEW_DROPS) != 0
    program = table(view, VIEW_PROGRAM, np.uint32)
    header = layout.HEADER_WORDS + group * layout.GROUP_WORDS
    classes = table(view, VIEW_CLASSES, np.uint8)
    first_column = np.int64(at(program, header + layout.GROUP_COLUMNS))
    first_cell = np.int64(at(program, header + layout.GROUP_CELLS))
    columns = array_at(field(view, VIEW_PROGRAM) + 4 * first_column, first_cell - first_column, np.uint32)
    size = np.int64(at(program, header + layout.GROUP_SIZE))
    cells = array_at(field(view, VIEW_PROGRAM) + 4 * first_cell, size, np.uint32)
    width = np.int64(at(program, header + layout.GROUP_WIDTH))
    first_far = np.int64(at(program, header + layout.GROUP_FIRST_FAR))
    of_classes = (first_cell - first_column) >> 1  # where the columns of classes begin
    is_spelled = at(program, header + layout.GROUP_SPELLED) != np.uint32(0)
    refines = at(program, header + layout.GROUP_REFINES) != np.uint32(0)
    tells_more = drops or (at(program, layout.PROGRAM_STEPS) > np.uint32(1) and not refines)
    skips = np.int64(at(program, header + layout.GROUP_SKIPS))
    high_bits = _HIGH_BITS  # of bytes that are no character by themselves
    high_count = _U8(128)
    if is_spelled:
        high_bits = ZERO
        high_count = _U8(0)
    marks = table(work, WORK_MARKS, np.uint64)
    group_tables = (columns, of_classes, cells, width, refines)

    row = np.int64(0)
    position = base
    plain = base  # from here on all characters are of one byte
    meeting = base
    fork = after_fork = base  # the character read with the last fork
    fork_row = row
    fork_starts = fork_dropped = ZERO  # bits up to there, as they were
    fork_meeting = base
    read_again = np.int64(0)
    marking = False
    failed = (np.int64(-1), base, base - 1)
    span = limit - base + 1
    while True:
        room = limit - position
        run = np.int64(0)
        if position <= failed[2] and not is_spelled:
            pass  # forks to what is known to fail are many
        elif room >= 64 and not marking:
            halts = range_mask(source, position, _U8(128), high_count, _U8(0))
            run = min(np.int64(trailing_zeros(halts)), np.int64(RUN))
            if row == skips:
                for place in range(header + layout.GROUP_RANGES, header + layout.GROUP_WORDS, 2):
                    count = np.uint8(at(program, place + 1))
                    if count == _U8(0):
                        break
                    halts |= range_mask(source, position, np.uint8(at(program, place)), count, _U8(0))
                if refines and drops:
                    halts |= _bits_from(dropped, position - base)
                skipped = np.int64(trailing_zeros(halts))
                if skipped > 0:
                    position += skipped
                    continue
        elif room >= 8 and not marking:
            run = np.int64(trailing_zeros(load_u64(source, position) & high_bits)) >> 3
        if run > 0:
            begun = gone = ZERO
            if refines:
                begun = _bits_from(starts, position - base)
                if drops:
                    gone = _bits_from(dropped, position - base)
            pieces, gone, met, size, row = _read_run(
                source, position, run, columns, cells, row, refines, begun, gone, tells_more
            )
            _put_run(starts, pieces, source, position, base, plain, is_spelled)
            if drops:
                _put_run(dropped, gone, source, position, base, plain, is_spelled)
            if met > _PIECES >> ONE:
                meeting = position + 63 - np.int64(leading_zeros(met)) - _FURTHEST_BACK
            elif met != ZERO:
                meeting = _last_of(met, source, position, base, is_spelled)
            position += size
            if size == run:
                continue
            room = limit - position
        elif room >= 8 and not marking:
            met, end, row = _read_characters(
                source, position, limit - 7, stop, classes, group_tables, row, starts, dropped, base, drops, failed
            )
            if met >= 0:
                meeting = met
            if end > position:
                position = plain = end
                continue

        # One character, or the end.
        column = width - 4
        size = np.int64(0)
        if room > 0:
            code_point, size = _one(source, position, stop, is_spelled)
            decided = np.int64(0)
            if refines:
                decided = _decided(starts, dropped, position - base, drops)
            if is_spelled:
                column = np.int64(at(columns, code_point + decided))
            else:
                column = np.int64(at(columns, of_classes + np.int64(at(classes, code_point)) + decided))
        elif not is_end:
            if row >= first_far:
                _take_back(starts, fork - base, fork_starts, limit - base)
                if drops:
                    _take_back(dropped, fork - base, fork_dropped, limit - base)
                meeting = fork_meeting
            return meeting
        flags = at(cells, row + column)
        if row >= first_far:
            if _fails(cells, width, row, position, failed) or (
                marking and is_set(marks, (row - first_far) // width * span + position - base)
            ):
                flags = _FAIL
            elif flags & _FAIL != np.uint32(0):
                kind = np.int64(at(cells, row + width - 3))
                if np.int64(at(cells, fork_row + width - 3)) == kind:
                    failed = (kind, after_fork, position)
        if flags & _FAIL != np.uint32(0):
            _take_back(starts, fork - base, fork_starts, position - base)
            if drops:
                _take_back(dropped, fork - base, fork_dropped, position - base)
            meeting = fork_meeting
            read_again += position - fork
            if marking:
                place = after_fork
                row = fork_row
                while place <= position and row >= first_far:
                    set_bit(marks, (row - first_far) // width * span + place - base)
                    if place >= limit:
                        break
                    code_point, size = _one(source, place, stop, is_spelled)
                    if is_spelled:
                        column = np.int64(at(columns, code_point))
                    else:
                        column = np.int64(at(columns, of_classes + np.int64(at(classes, code_point))))
                    row = np.int64(at(cells, row + column + 1))
                    place += size
            elif read_again > 2 * span + FREE_OVERRUN:
                words = ((len(cells) - first_far) // width * span >> 6) + 2
                if len(marks) < words:
                    set_field(work, WORK_NEEDED, words)
                    return np.int64(NEED_MARKS)
                for word in range(words):
                    put(marks, word, ZERO)
                marking = True
            position = fork
            size = after_fork - fork
            room = limit - position
            row = fork_row
            column = width - 2
            flags = at(cells, row + column)
        while flags & _FORK != np.uint32(0):
            fork_row = np.int64(at(cells, row + column + 1))
            if not _fails(cells, width, fork_row, position + size, failed):
                fork = position
                after_fork = position + size
                fork_starts = _bits_until(starts, position - base)
                if drops:
                    fork_dropped = _bits_until(dropped, position - base)
                fork_meeting = meeting
                break
            row = fork_row  # known to fail
            column = width - 2
            flags = at(cells, row + column)
        row = np.int64(at(cells, row + column + 1))
        said = np.uint64(flags)
        _put_pieces(starts, said & _PIECES, source, position, base, is_spelled)
        if drops:
            _put_pieces(dropped, said >> _DROPPED_SHIFT & _PIECES, source, position, base, is_spelled)
        met = said >> _MEETING_SHIFT & _PIECES
        if met != ZERO:
            meeting = _last_of(met, source, position, base, is_spelled)
        if room <= 0:
            return meeting
        position += size
        if size > 1:
            plain = position


@kernel("int64(int64, int64, int64, int64, int64, int64, int64)")
def walk_automaton(view, work, text, length, base, stop, blocks):
    """Walk the rule whose tables are VIEW_CLASSES and VIEW_PROGRAM; parameters and result: see the module."""
    starts = table(work, WORK_STARTS, np.uint64)
    dropped = table(work, WORK_DROPPED, np.uint64)
    drops = field(view, VIEW_DROPS) != 0
    is_end = base + 64 * blocks >= stop
    limit = stop if is_end else base + 64 * blocks
    for block in range(blocks + 1):
        put(starts, block, ZERO)
        if drops:
            put(dropped, block, ZERO)
    program = table(view, VIEW_PROGRAM, np.uint32)
    steps = np.int64(at(program, layout.PROGRAM_STEPS))
    groups = np.int64(at(program, layout.PROGRAM_GROUPS))
    group = np.int64(0)
    if field(work, WORK_COARSE) != 0 and steps > 1:
        group = groups  # the first step alone
        steps = np.int64(1)
        groups += 1
    set_bit(starts, np.int64(0))
    decided = limit
    while group < groups:
        found = _scan(view, work, text, length, stop, group, base, decided, is_end or decided < limit)
        if found < 0:
            return found
        if steps > 1 and not is_end and decided == limit:
            decided = found
        group += 1
    return decided
