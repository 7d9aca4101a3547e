"""White space at the ends of tokens, left out of their offsets."""

import numpy as np

from numbatok.kernels.intrinsics import array_at, at, field, put, table
from numbatok.kernels.jit import helper
from numbatok.kernels.offset_plan import (
    PLAN_IDS,
    PLAN_IN_BYTES,
    PLAN_LENGTHS_OF,
    PLAN_OFFSETS,
    PLAN_SPACES,
    PLAN_SPACES_USED,
    TRIM_KEEPS_AT_START,
    TRIM_KEEPS_FIRST,
    is_inside,
    width_of,
)


@helper
def _forward(source, place, stop, count, in_bytes):
    """``count`` characters further, but not beyond ``stop``."""
    if not in_bytes:
        return min(place + count, stop)
    while count > 0 and place < stop:
        place += width_of(at(source, place)) if place < len(source) else 1
        count -= 1
    return min(place, stop)


@helper
def _backward(source, place, start, count, in_bytes):
    """``count`` characters back, but not beyond ``start``; ``place`` where the text has not so many before it."""
    if not in_bytes:
        return max(place - count, start) if place >= count else place
    here = place
    while count > 0 and here > 0:
        here -= 1
        while 0 < here < len(source) and is_inside(source, here):
            here -= 1
        count -= 1
    return max(here, start) if count == 0 else place


@helper
def trim_text(plan, text, length, begin, end, trim):
    """Trim the offsets of the ids from ``begin`` to ``end``, those of one text; see :func:`trim_offsets`."""
    ids = table(plan, PLAN_IDS, np.uint32)
    counts = table(plan, PLAN_LENGTHS_OF, np.int64)
    offsets = table(plan, PLAN_OFFSETS, np.int64)
    source = array_at(text, length, np.uint8)
    notes = table(plan, PLAN_SPACES, np.int64)
    in_bytes = field(plan, PLAN_IN_BYTES) != 0
    noted = field(plan, PLAN_SPACES_USED)
    low, high = np.int64(0), noted
    while low < high:
        middle = (low + high) >> 1
        if at(notes, 3 * middle) < begin:
            low = middle + 1
        else:
            high = middle
    note = low
    for place in range(begin, end):
        before = behind_it = np.int64(0)
        if note < noted and at(notes, 3 * note) == place:
            before, behind_it = at(notes, 3 * note + 1), at(notes, 3 * note + 2)
            note += 1
        else:
            number = 3 * np.int64(at(ids, place))
            if number >= len(counts):
                continue
            before, behind_it = at(counts, number + 1), at(counts, number + 2)
            if before | behind_it == 0:
                continue
        start, stop = at(offsets, 2 * place), at(offsets, 2 * place + 1)
        if before > 0:
            if before == 1 and (
                (start == 0 and trim & TRIM_KEEPS_AT_START != 0) or (place == begin and trim & TRIM_KEEPS_FIRST != 0)
            ):
                before = np.int64(0)
            start = _forward(source, start, stop, before, in_bytes)
        if behind_it > 0:
            stop = _backward(source, stop, start, behind_it, in_bytes)
        put(offsets, 2 * place, start)
        put(offsets, 2 * place + 1, stop)
