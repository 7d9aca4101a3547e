"""Stage 1 for any split rule: one kernel that runs the tables of :mod:`numbatok.patterns.compile`.

The contract is that of :mod:`numbatok.kernels.starts`, and besides:

* where ``VIEW_DROPS`` is 1 the walk also fills ``WORK_DROPPED``: a bit at the start of each piece that is dropped;
* of a rule of several steps, ``decided`` is a start of the first step, from which a fresh walk continues all steps; it
  is ``base`` if there is no other within the blocks; with ``WORK_COARSE`` that step alone is walked;
* ``NEED_MARKS`` may be returned instead: then ``WORK_NEEDED`` words are wanted in ``WORK_MARKS``, and the walk begun
  anew.

A table has a row for each state of the scanner and a column for each class of characters; see
:class:`numbatok.patterns.scanner.Scanner` and the constants there for what an entry says. One load a byte is all that
depends on the one before; whether pieces begin is shifted into a word without a branch.
"""

import numpy as np

from numbatok.kernels.dtypes import (
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
from numbatok.kernels.intrinsics import array_at, at, at_sum, field, load_u64, put, set_field, table, trailing_zeros
from numbatok.kernels.intrinsics_vector import range_mask
from numbatok.kernels.jit import helper, kernel
from numbatok.kernels.starts import character_at, is_set, last_start, next_start, set_bit
from numbatok.patterns import compile as layout
from numbatok.patterns import scanner

_U8 = np.uint8
_HIGH_BITS = np.uint64(0x8080808080808080)
_PIECES = np.uint32(15)
_DROPPED_SHIFT = np.uint32(scanner.DROPPED_SHIFT)
_ANCHOR = np.uint32(scanner.ANCHOR)
_BACK = np.uint32(scanner.BACK)
_BACK_GAP = np.uint32(scanner.BACK_GAP)
_MARK = np.uint32(scanner.MARK)
_MARK_DROPPED = np.uint32(scanner.MARK_DROPPED)
_ANY_BACK = np.uint32(scanner.BACK | scanner.BACK_GAP)
_ACTIONS = np.uint32(scanner.ANCHOR | scanner.BACK | scanner.BACK_GAP | scanner.MARK | scanner.MARK_DROPPED)
_ROW_SHIFT = np.uint32(scanner.ROW_SHIFT)

RUN = 56  # bytes of ASCII read at once: with the three before them, their bits fit a word
FREE_OVERRUN = 4096  # bytes read again in a piece before failed overruns are marked


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
def _one(source, position, stop, is_spelled):
    """(code point, bytes) of what a step reads at ``position``: a character, or a byte where it is spelled."""
    if is_spelled:
        return np.int64(at(source, position)), np.int64(1)
    return character_at(source, position, stop)


@helper
def _read_run(source, position, run, classes, cells, row, shift):
    """(pieces, bytes read, last entry) of reading at least one byte, up to the first with an action.

    The bytes are ASCII; in a spelled step they are any.

    Bit ``i`` of ``pieces`` is the byte ``position - 3 + i``; ``shift`` chooses pieces that begin or that are dropped.
    """
    pieces = ZERO
    i = np.int64(0)
    while True:
        entry = at_sum(cells, np.int64(at(classes, np.int64(at(source, position + i)))), row)
        pieces |= np.uint64(entry >> shift & _PIECES) << np.uint64(i)
        i += 1
        if entry & _ACTIONS != np.uint32(0) or i >= run:
            return pieces, i, entry
        row = np.int64(entry >> _ROW_SHIFT)


@helper
def _scan(view, work, text, length, stop, step, base, begin, limit, is_end):
    """Mark the pieces of one step in ``text[begin:limit]``, where ``limit`` is the end of the text for it or not.

    Returns 0 or NEED_MARKS. Once failed overruns have cost twice the text and ``FREE_OVERRUN`` bytes more, each (far
    state, position) from which one failed is marked, and none is followed from there again: so the time stays linear
    (Reps, "'Maximal-munch' tokenization in linear time", 1998). Ordinary text in ordinary rules never comes to that.
    """
    source = array_at(text, length, np.uint8)
    starts = table(work, WORK_STARTS, np.uint64)
    dropped = table(work, WORK_DROPPED, np.uint64)
    drops = field(view, VIEW_DROPS) != 0
    program = table(view, VIEW_PROGRAM, np.uint32)
    header = layout.HEADER_WORDS + step * layout.STEP_WORDS
    is_spelled = at(program, header + layout.STEP_SPELLED) != np.uint32(0)
    classes = table(view, VIEW_CLASSES, np.uint8)
    high_bits = _HIGH_BITS  # of bytes that are no character by themselves
    high_count = _U8(128)
    if is_spelled:
        classes = array_at(field(view, VIEW_CLASSES) + layout.BYTE_CLASSES, 256, np.uint8)
        high_bits = ZERO
        high_count = _U8(0)
    cells = array_at(
        field(view, VIEW_PROGRAM) + 4 * np.int64(at(program, header + layout.STEP_TABLE)),
        len(program) - np.int64(at(program, header + layout.STEP_TABLE)),
        np.uint32,
    )
    width = np.int64(at(program, header + layout.STEP_WIDTH))
    rows = np.int64(at(program, header + layout.STEP_ROWS))
    after_match = np.int64(at(program, header + layout.STEP_AFTER_MATCH))
    after_gap = np.int64(at(program, header + layout.STEP_AFTER_GAP))
    first_far = np.int64(at(program, header + layout.STEP_FIRST_FAR))
    depth = np.int64(at(program, header + layout.STEP_DEPTH))
    skips = at(program, header + layout.STEP_SKIPS) != np.uint32(0)
    low = np.uint8(at(program, header + layout.STEP_RANGES))
    count = np.uint8(at(program, header + layout.STEP_RANGES + 1))
    low_2 = np.uint8(at(program, header + layout.STEP_RANGES + 2))
    count_2 = np.uint8(at(program, header + layout.STEP_RANGES + 3))
    marks = table(work, WORK_MARKS, np.uint64)

    set_bit(starts, begin - base)
    row = after_match
    position = begin
    before = begin - 1  # where the three characters before began; that is not used further back than `begin`
    before_2 = begin - 2
    before_3 = begin - 3
    anchor = begin
    far_position = begin
    far_row = row
    read_again = np.int64(0)
    marking = False
    span = limit - begin + 1
    while True:
        run = np.int64(0)
        room = limit - position
        if position - before_3 == 3 and not marking:
            if room >= 64:
                halts = range_mask(source, position, _U8(128), high_count, _U8(0))
                run = min(np.int64(trailing_zeros(halts)), np.int64(RUN))
                if skips and row == after_gap:
                    halts |= range_mask(source, position, low, count, _U8(0))
                    halts |= range_mask(source, position, low_2, count_2, _U8(0))
                    skipped = np.int64(trailing_zeros(halts))
                    if skipped > 0:
                        position += skipped
                        before = position - 1
                        before_2 = position - 2
                        before_3 = position - 3
                        continue
            elif room >= 8:
                run = np.int64(trailing_zeros(load_u64(source, position) & high_bits)) >> 3
        if run > 0:
            pieces, size, entry = _read_run(source, position, run, classes, cells, row, np.uint32(0))
            _or_bits(starts, position - 3 - base, pieces)
            if drops:
                pieces, size, entry = _read_run(source, position, size, classes, cells, row, _DROPPED_SHIFT)
                _or_bits(dropped, position - 3 - base, pieces)
            row = np.int64(entry >> _ROW_SHIFT)
            position += size
            before = position - 1
            before_2 = position - 2
            before_3 = position - 3
            if entry & _ACTIONS == np.uint32(0):
                continue
            # Stand again at the character with the action.
            position -= 1
            before -= 1
            before_2 -= 1
            before_3 -= 1
            size = np.int64(1)
        else:
            column = width - 2
            size = np.int64(0)
            if room > 0:
                code_point, size = _one(source, position, stop, is_spelled)
                column = np.int64(at(classes, code_point))
            elif not is_end:
                return 0
            if marking and row >= first_far and is_set(marks, (row - first_far) // width * span + position - begin):
                column = width - 1
            entry = at(cells, row + column)
            _put_pieces(starts, entry & _PIECES, base, position, before, before_2, before_3)
            if drops:
                _put_pieces(dropped, entry >> _DROPPED_SHIFT & _PIECES, base, position, before, before_2, before_3)
            row = np.int64(entry >> _ROW_SHIFT)

        # What is rare.
        if entry & _MARK != np.uint32(0):
            set_bit(starts, anchor - base)
            if drops and entry & _MARK_DROPPED != np.uint32(0):
                set_bit(dropped, anchor - base)
        if entry & _ANY_BACK != np.uint32(0):
            read_again += position - anchor
            if marking:
                place = far_position
                state = far_row
                while place <= position and state >= first_far:
                    set_bit(marks, (state - first_far) // width * span + place - begin)
                    if place >= limit:
                        break
                    code_point, size = _one(source, place, stop, is_spelled)
                    state = np.int64(at(cells, state + np.int64(at(classes, code_point))) >> _ROW_SHIFT)
                    place += size
            elif read_again > 2 * span + FREE_OVERRUN:
                words = ((rows * width - first_far) // width * span >> 6) + 2
                if len(marks) < words:
                    set_field(work, WORK_NEEDED, words)
                    return NEED_MARKS
                for word in range(words):
                    put(marks, word, ZERO)
                marking = True
            position = anchor
            row = after_match
            if entry & _BACK_GAP != np.uint32(0):
                code_point, size = _one(source, position, stop, is_spelled)
                position += size
                row = after_gap
            before = position - 1
            before_2 = position - 2
            before_3 = position - 3
            continue
        if room <= 0:
            return 0
        if entry & _ANCHOR != np.uint32(0):
            anchor = position
            if depth == 1:
                anchor = before
            elif depth == 2:
                anchor = before_2
            elif depth == 3:
                anchor = before_3
            far_position = position + size
            far_row = row
        before_3 = before_2
        before_2 = before
        before = position
        position += size


@helper
def _put_pieces(bitmap, pieces, base, position, before, before_2, before_3):
    """Set the bits of the pieces that begin at the last four characters, those that an entry names."""
    if pieces != np.uint32(0):
        if pieces & np.uint32(8) != np.uint32(0):
            set_bit(bitmap, position - base)
        if pieces & np.uint32(4) != np.uint32(0):
            set_bit(bitmap, before - base)
        if pieces & np.uint32(2) != np.uint32(0):
            set_bit(bitmap, before_2 - base)
        if pieces & np.uint32(1) != np.uint32(0):
            set_bit(bitmap, before_3 - base)


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
    steps = np.int64(at(program, 0))
    if field(work, WORK_COARSE) != 0:
        steps = min(steps, 1)
    set_bit(starts, np.int64(0))
    decided = limit
    for step in range(steps):
        if step == 1 and not is_end:
            decided = base + last_start(starts, limit - base - 1)
        begin = base
        while begin < decided:
            end = decided
            if step > 0:
                end = base + next_start(starts, begin - base + 1, decided - base)
            if step == 0 or not (drops and is_set(dropped, begin - base)):
                status = _scan(view, work, text, length, stop, step, base, begin, end, step > 0 or is_end)
                if status != 0:
                    return status
            begin = end
    return decided
