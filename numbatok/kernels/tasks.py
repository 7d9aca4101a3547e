"""The tasks of a parallel call: made from its documents, and joined where no seam is found between them.

Rows of ``TASK_FIELDS``, in the order of their documents. A task is a group of whole documents or, of a long one, a
*part*, from ``TASK_BEGIN`` on. Making them is what no other thread can help with, hence a kernel: 0.04 ms for 20,000
documents, and 0.15 with NumPy.
"""

import numpy as np

from numbatok.kernels.dtypes import (
    AT_BEGINNING,
    NO_SEAM,
    NO_UNTIL,
    TASK_BEGIN,
    TASK_BYTES,
    TASK_COUNT,
    TASK_FIELDS,
    TASK_FIRST,
    TASK_TRIES_OFF,
    TASK_UNTIL,
)
from numbatok.kernels.intrinsics import array_at, at, field, put, set_field
from numbatok.kernels.jit import helper, kernel

DOCUMENT_COST = 24  # bytes that a document costs besides its own


@helper
def _put_task(tasks, number, first, count, begin, until, tries_off, size):
    """Fill a row."""
    row = tasks + 8 * TASK_FIELDS * number
    for other in range(TASK_FIELDS):
        set_field(row, other, 0)
    set_field(row, TASK_FIRST, first)
    set_field(row, TASK_COUNT, count)
    set_field(row, TASK_BEGIN, begin)
    set_field(row, TASK_UNTIL, until)
    set_field(row, TASK_TRIES_OFF, tries_off)
    set_field(row, TASK_BYTES, size)


@kernel("int64(int64, int64, int64, int64, int64, int64, int64, int64, int64, int64, int64)")
def plan_tasks(lengths, count, tries_off, longest, least, guide, share_bytes, tasks, capacity, shares, most_shares):
    """Make the tasks of ``count`` documents; returns how many, or minus what ``capacity`` would do.

    Parameters
    ----------
    lengths : address of int64[count], bytes; a negative one is a block of ids
    tries_off : address of int64[count], the documents' WORK_TRIES_OFF; documents with others are not grouped
    longest : bytes of a document from which on it is cut into parts
    least, guide : a task has the ``guide``-th part of the bytes that are left of its share, but at least ``least``
    share_bytes : of one share
    tasks : address of int64[capacity * TASK_FIELDS]
    shares : address of int64[most_shares], enough of them; set to the first task of each, then to the number of all
    """
    sizes = array_at(lengths, count, np.int64)
    tries = array_at(tries_off, count, np.int64)
    share_of = array_at(shares, most_shares, np.int64)
    line = np.int64(0)  # bytes before, as all are counted
    share_end = share_bytes
    which = np.int64(0)
    made = np.int64(0)
    first = np.int64(0)  # of the group that is being made ...
    grouped = np.int64(0)  # ... its bytes ...
    target = least  # ... and how many there are to be
    put(share_of, 0, 0)
    for document in range(count):
        size = max(at(sizes, document), 0)
        is_long = size > longest
        if grouped > 0 and (is_long or at(tries, document) != at(tries, first) or grouped >= target):
            if made < capacity:
                _put_task(tasks, made, first, document - first, AT_BEGINNING, NO_UNTIL, at(tries, first), grouped)
            made += 1
            grouped = np.int64(0)
        if grouped == 0:
            first = document
            while line >= share_end and which + 2 < most_shares:
                which += 1
                put(share_of, which, made)
                share_end += share_bytes
            target = max((share_end - line) // guide, least)
        if not is_long:
            grouped += size + DOCUMENT_COST
            line += size + DOCUMENT_COST
            continue
        begin = np.int64(0)
        while begin < size:
            while line >= share_end and which + 2 < most_shares:
                which += 1
                put(share_of, which, made)
                share_end += share_bytes
            end = begin + max((share_end - line) // guide, least)
            until = end
            if size - end < least:
                end = size
                until = np.int64(NO_UNTIL)
            if made < capacity:
                _put_task(tasks, made, document, 1, begin, until, at(tries, document), end - begin)
            made += 1
            line += end - begin
            begin = end
        line += DOCUMENT_COST
    if grouped > 0:
        if made < capacity:
            _put_task(tasks, made, first, count - first, AT_BEGINNING, NO_UNTIL, at(tries, first), grouped)
        made += 1
    for later in range(which + 1, most_shares):
        put(share_of, later, made)
    if made > capacity:
        return -made
    return made


@kernel("int64(int64, int64, int64, int64)")
def join_parts(tasks, count, shares, share_count):
    """Let parts end where the next one's seam is, and leave those without one to the part before; returns how many.

    A seam far behind its guess may lie behind the next one's, which is none then. ``shares`` is int64[share_count] of
    tasks' numbers, which are changed to those after.
    """
    share_of = array_at(shares, share_count, np.int64)
    kept = np.int64(0)
    which = np.int64(0)
    for number in range(count):
        while which < share_count and at(share_of, which) == number:
            put(share_of, which, kept)
            which += 1
        row = tasks + 8 * TASK_FIELDS * number
        begin = field(row, TASK_BEGIN)
        before = tasks + 8 * TASK_FIELDS * (kept - 1)
        if begin == NO_SEAM or (begin > 0 and begin <= field(before, TASK_BEGIN)):
            set_field(before, TASK_BYTES, field(before, TASK_BYTES) + field(row, TASK_BYTES))
            continue
        if begin > 0:
            set_field(before, TASK_UNTIL, begin)
        to = tasks + 8 * TASK_FIELDS * kept
        for other in range(TASK_FIELDS):
            set_field(to, other, field(row, other))
        if begin >= 0:
            set_field(to, TASK_UNTIL, NO_UNTIL)
        kept += 1
    while which < share_count:
        put(share_of, which, kept)
        which += 1
    return kept
