"""Offsets of ids that are the bytes of their text, all of them, in turn: the lengths of their tokens add up.

A word about each id (``INFO_...``) tells its bytes, the first bytes of characters among them, and what is missing of a
character that it does not end, so no text is read, and nothing branches on what one of them is.
"""

import numpy as np

from numbatok.kernels.intrinsics import at, field, put, table
from numbatok.kernels.jit import helper
from numbatok.kernels.offset_plan import (
    INFO_BEFORE_SHIFT,
    INFO_BEGINS_INSIDE,
    INFO_BEHIND_SHIFT,
    INFO_BLANKS,
    INFO_CHARACTERS,
    INFO_CHARACTERS_SHIFT,
    INFO_ENDS_INSIDE,
    INFO_INSIDE_SHIFT,
    INFO_LENGTH,
    INFO_MISSING_SHIFT,
    INFO_OPEN,
    INFO_PRESENT_SHIFT,
    INFO_VARIES,
    PLAN_IDS,
    PLAN_IN_BYTES,
    PLAN_INFO,
    PLAN_OFFSETS,
    PLAN_TRIM,
    ROW_BASE,
    ROW_SHIFT,
    ROW_SOURCES,
    TRIM_KEEPS_AT_START,
    TRIM_KEEPS_FIRST,
)

GROUP = 16  # ids of which it is asked at once whether they are whole characters, as nearly all of English are
PARTS_OF_CHARACTERS = INFO_BEGINS_INSIDE | INFO_ENDS_INSIDE


@helper
def _word_of(info, ids, place):
    """The word about the id at a place."""
    number = np.int64(at(ids, place))
    return np.int64(at(info, number)) if number < len(info) else np.int64(INFO_VARIES)


@helper
def _put_whole(plan, begin, position, shift, most, blanks):
    """Locate GROUP ids from ``begin`` on as if each were whole characters.

    What an id takes is ``most`` of its word from ``shift`` on. Returns (the bits that any word has, where the last id
    ends, the bytes of all).
    """
    ids = table(plan, PLAN_IDS, np.uint32)
    info = table(plan, PLAN_INFO, np.uint64)
    offsets = table(plan, PLAN_OFFSETS, np.int64)
    seen = size = np.int64(0)
    for i in range(GROUP):
        word = _word_of(info, ids, begin + i)
        seen |= word
        size += word & INFO_LENGTH
        put(offsets, 2 * (begin + i), position + (word >> INFO_BEFORE_SHIFT & blanks))
        position += word >> shift & most
        put(offsets, 2 * (begin + i) + 1, position - (word >> INFO_BEHIND_SHIFT & blanks))
    return seen, position, size


@helper
def _put_group(plan, begin, position, shift, most, blanks):
    """:func:`_put_whole`; where nothing is trimmed in code of its own, which takes a fifth less time."""
    if blanks == 0:
        return _put_whole(plan, begin, position, shift, most, 0)
    return _put_whole(plan, begin, position, shift, most, blanks)


@helper
def _in_characters(plan, begin, end, base, blanks):
    """:func:`add_up` in characters; returns the bytes of all ids, or -1."""
    ids = table(plan, PLAN_IDS, np.uint32)
    info = table(plan, PLAN_INFO, np.uint64)
    offsets = table(plan, PLAN_OFFSETS, np.int64)
    position = np.int64(0)
    characters = base
    while begin < end:
        if begin + GROUP <= end:
            seen, following, size = _put_group(plan, begin, characters, INFO_CHARACTERS_SHIFT, INFO_CHARACTERS, blanks)
            if seen & (INFO_BEGINS_INSIDE | INFO_VARIES) == 0:
                characters = following
                position += size
                begin += GROUP
                continue
        stop = min(begin + 16 * GROUP, end)
        for place in range(begin, stop):
            word = _word_of(info, ids, place)
            if word & INFO_VARIES != 0:
                return np.int64(-1)
            start = characters - (word >> INFO_INSIDE_SHIFT & 1)
            characters += word >> INFO_CHARACTERS_SHIFT & INFO_CHARACTERS
            put(offsets, 2 * place, start + (word >> INFO_BEFORE_SHIFT & blanks))
            put(offsets, 2 * place + 1, characters - (word >> INFO_BEHIND_SHIFT & blanks))
            position += word & INFO_LENGTH
        begin = stop
    return position


@helper
def _in_bytes(plan, begin, end, base, blanks):
    """:func:`add_up` in bytes."""
    ids = table(plan, PLAN_IDS, np.uint32)
    info = table(plan, PLAN_INFO, np.uint64)
    offsets = table(plan, PLAN_OFFSETS, np.int64)
    position = base
    opened = closed = base  # the last character that begins so far: where, if not all of it is here, and where it ends
    while begin < end:
        if begin + GROUP <= end:
            seen, following, _ = _put_group(plan, begin, position, 0, INFO_LENGTH, blanks)
            if seen & (PARTS_OF_CHARACTERS | INFO_VARIES) == 0:
                opened = closed = position = following
                begin += GROUP
                continue
        stop = min(begin + 16 * GROUP, end)
        for place in range(begin, stop):
            word = _word_of(info, ids, place)
            if word & INFO_VARIES != 0:
                return np.int64(-1)
            # Choices by masks: which of them it is no branch foresees, where characters are cut.
            is_inside = -(word >> INFO_INSIDE_SHIFT & 1)
            start = position ^ ((position ^ opened) & is_inside)
            position += word & INFO_LENGTH
            begins_one = -np.int64(word & (INFO_CHARACTERS << INFO_CHARACTERS_SHIFT) != 0)
            opened ^= (opened ^ (position - (word >> INFO_PRESENT_SHIFT & INFO_OPEN))) & begins_one
            closed ^= (closed ^ (position + (word >> INFO_MISSING_SHIFT & INFO_OPEN))) & begins_one
            put(offsets, 2 * place, start + (word >> INFO_BEFORE_SHIFT & blanks))
            put(offsets, 2 * place + 1, closed - (word >> INFO_BEHIND_SHIFT & blanks))
        begin = stop
    return position - base


@helper
def _through_sources(plan, row, begin, end):
    """:func:`add_up` where the document's characters stand for others."""
    ids = table(plan, PLAN_IDS, np.uint32)
    info = table(plan, PLAN_INFO, np.uint64)
    offsets = table(plan, PLAN_OFFSETS, np.int64)
    sources = table(row, ROW_SOURCES, np.int64)
    base = field(row, ROW_BASE)
    most = len(sources) - 1
    position = np.int64(0)
    characters = np.int64(0)
    for place in range(begin, end):
        word = _word_of(info, ids, place)
        if word & INFO_VARIES != 0:
            return np.int64(-1)
        first = characters - (word >> INFO_INSIDE_SHIFT & 1)
        characters += word >> INFO_CHARACTERS_SHIFT & INFO_CHARACTERS
        position += word & INFO_LENGTH
        put(offsets, 2 * place, base + at(sources, max(min(first, most), 0)))
        put(offsets, 2 * place + 1, base + at(sources, max(min(characters - 1, most), 0)) + 1)
    return position


@helper
def _keep_first_blank(plan, begin):
    """Let the first id of a text have the one blank that it begins with, which was left out."""
    word = _word_of(table(plan, PLAN_INFO, np.uint64), table(plan, PLAN_IDS, np.uint32), begin)
    offsets = table(plan, PLAN_OFFSETS, np.int64)
    if word >> INFO_BEFORE_SHIFT & INFO_BLANKS == 1:
        put(offsets, 2 * begin, np.int64(0))
        if word & INFO_LENGTH == 1:  # it is the one at its end too
            put(offsets, 2 * begin + 1, np.int64(0))


@helper
def _leave_out(plan, begin, end, base):
    """Let the first ids stand for nothing before ``base``, where the text begins, but for its first character."""
    offsets = table(plan, PLAN_OFFSETS, np.int64)
    place = begin
    while place < end and at(offsets, 2 * place) < base:
        put(offsets, 2 * place, base)
        put(offsets, 2 * place + 1, max(at(offsets, 2 * place + 1), base + 1))
        place += 1


@helper
def add_up(plan, row, length, begin, end):
    """Locate the ids from ``begin`` to ``end``, a document's, by their lengths; whether that is possible."""
    trim = field(plan, PLAN_TRIM)
    blanks = np.int64(INFO_BLANKS if trim != 0 else 0)
    in_bytes = field(plan, PLAN_IN_BYTES) != 0
    base = shift = np.int64(0)
    if row != 0:
        base = field(row, ROW_BASE)
        shift = field(row, ROW_SHIFT)
        if field(row, ROW_SOURCES) != 0:
            return _through_sources(plan, row, begin, end) == length
    if in_bytes:
        located = _in_bytes(plan, begin, end, base - shift, blanks)
    else:
        located = _in_characters(plan, begin, end, base - shift, blanks)
    if located != length:
        return False
    if shift > 0:  # the U+0020 put before the text stands for its first character
        _leave_out(plan, begin, end, base)
    if begin < end and trim & (TRIM_KEEPS_AT_START | TRIM_KEEPS_FIRST) != 0:
        _keep_first_blank(plan, begin)
    return True
