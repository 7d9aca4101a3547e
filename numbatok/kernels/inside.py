"""Functions for other people's kernels: encode, count and decode inside a ``numba.njit`` function of one's own.

They take plain arrays: ``view`` is :meth:`numbatok.Tokenizer.kernel_view`, ``scratch`` is
:meth:`numbatok.Tokenizer.new_scratch`. The rules:

* one scratch is for one thread at a time; a view is for any number of them;
* the tokenizer lives at least as long as its views, and neither a view nor a scratch is copied or pickled: they hold
  addresses;
* text is UTF-8, uint8, in one piece; nothing checks that here. What is not encodes to some ids, and nothing worse;
* a tokenizer that normalizes text, or puts a space before it, has no view; templates are left to the caller, and added
  tokens become their ids wherever they stand.

Each returns (status, number): status DONE, or what was in the way. Machine code that Numba has cached for a function
that calls these knows the layout of the version it was compiled with; met by another it returns STALE, and its cache
is to be deleted.
"""

import zlib
from pathlib import Path

import numpy as np

from numbatok.kernels import dtypes
from numbatok.kernels.decode import NO_ROOM as _NO_BYTES
from numbatok.kernels.dtypes import (
    AT_BEGINNING,
    LIST,
    NEED_ARENA,
    NEED_NARROW,
    NEED_OUTPUT,
    NEED_WIDE,
    PAUSED,
    VIEW_ENCODER,
    VIEW_FIELDS,
    WORK_ARENA_USED,
    WORK_COUNT_ONLY,
    WORK_DOCUMENT,
    WORK_LEFT,
    WORK_LIST,
    WORK_NARROW_USED,
    WORK_OUTPUT,
    WORK_OUTPUT_USED,
    WORK_POSITION,
    WORK_TABLE,
    WORK_TEXT,
    WORK_VIEW,
    WORK_WIDE_USED,
    ZERO,
)
from numbatok.kernels.intrinsics import call_kernel, field, put, set_field, table
from numbatok.kernels.jit import helper

DONE = 0
NO_ROOM = -1  # ``out`` is too short: ``stop - start + ROOM`` elements after ``at`` always do for encoding
TOO_LONG = -2  # a pretoken is longer than the scratch was made for
STALE = -3  # this code was compiled with another version of numbatok
UNKNOWN_ID = -4  # the number is the place of an id that is not in the vocabulary
ROOM = dtypes.OUTPUT_SLACK

# After the view's fields: where decode_documents is, the six arguments that are its tables, and last of all the layout.
DECODER = VIEW_FIELDS
TABLES = DECODER + 1
ACCESS_FIELDS = TABLES + 7

#: What code that was compiled with these constants can rely on.
LAYOUT = zlib.crc32(Path(dtypes.__file__).read_bytes() + Path(__file__).read_bytes())

_MOST_LEFT = 1 << 62


@helper
def _forget(work):
    """Empty the cache."""
    entries = table(work, WORK_TABLE, np.uint64)
    for i in range(len(entries)):
        put(entries, i, ZERO)
    set_field(work, WORK_NARROW_USED, 0)
    set_field(work, WORK_WIDE_USED, 0)
    set_field(work, WORK_ARENA_USED, 0)


@helper
def _encode(view, work, text, length, out, room, count_only):
    """(status, how many ids) of a text at an address, put to the ``room`` elements at address ``out``."""
    first = work + 8 * WORK_TEXT
    kept, kept_room = field(work, WORK_OUTPUT), field(work, WORK_OUTPUT + 1)
    set_field(work, WORK_VIEW, view)
    set_field(work, WORK_TEXT, text)
    set_field(work, WORK_TEXT + LIST, length)
    set_field(work, WORK_DOCUMENT, 0)
    set_field(work, WORK_POSITION, AT_BEGINNING)
    set_field(work, WORK_OUTPUT_USED, 0)
    set_field(work, WORK_COUNT_ONLY, 1 if count_only else 0)
    set_field(work, WORK_LEFT, _MOST_LEFT)
    if not count_only:
        set_field(work, WORK_OUTPUT, out)
        set_field(work, WORK_OUTPUT + 1, room)
    result = np.int64(NEED_ARENA)
    wiped = np.int64(-1)
    while result in (NEED_ARENA, NEED_NARROW, NEED_WIDE, PAUSED):
        result = call_kernel(field(view, VIEW_ENCODER), (work, first, first + 8 * LIST, first + 16 * LIST, np.int64(1)))
        if result in (NEED_ARENA, NEED_NARROW, NEED_WIDE):
            place = field(work, WORK_OUTPUT_USED)
            if place == wiped and result == NEED_ARENA:
                break  # not even an empty arena holds this one
            wiped = place
            _forget(work)
    set_field(work, WORK_OUTPUT, kept)
    set_field(work, WORK_OUTPUT + 1, kept_room)
    set_field(work, WORK_COUNT_ONLY, 0)
    if result >= 0:
        return np.int64(DONE), result
    return np.int64(NO_ROOM if result == NEED_OUTPUT and not count_only else TOO_LONG), np.int64(0)


@helper
def encode_into(view, scratch, text, start, stop, out, at):
    """Encode ``text[start:stop]`` as a text of its own, its ids to ``out`` from ``at`` on.

    Parameters
    ----------
    view, scratch : int64 arrays; see the module
    text : uint8 array, UTF-8
    start, stop : byte offsets
    out : uint32 array
    at : index in ``out``

    Returns (DONE, index in ``out`` after the last id), after which ``out`` may hold anything; or (NO_ROOM, TOO_LONG or
    STALE, ``at``).

    >>> @numba.njit(parallel=True, cache=True)
    ... def encode_all(view, scratches, text, offsets, out, counts):
    ...     for worker in numba.prange(len(scratches)):
    ...         for i in range(worker, len(offsets) - 1, len(scratches)):
    ...             first, last = offsets[i], offsets[i + 1]
    ...             status, end = encode_into(view, scratches[worker], text, first, last, out, first)
    ...             counts[i] = end - first if status == 0 else status
    """
    if view[len(view) - 1] != LAYOUT:
        return np.int64(STALE), np.int64(at)
    if start < 0 or stop > len(text) or start > stop or at < 0 or at > len(out):
        return np.int64(NO_ROOM), np.int64(at)
    status, count = _encode(
        np.int64(view.ctypes.data),
        np.int64(scratch.ctypes.data),
        np.int64(text.ctypes.data) + np.int64(start),
        np.int64(stop) - np.int64(start),
        np.int64(out.ctypes.data) + 4 * np.int64(at),
        np.int64(len(out)) - np.int64(at),
        False,
    )
    return status, np.int64(at) + count


@helper
def count_in(view, scratch, text, start, stop):
    """(DONE, how many ids :func:`encode_into` gives for ``text[start:stop]``), or (TOO_LONG or STALE, 0)."""
    if view[len(view) - 1] != LAYOUT:
        return np.int64(STALE), np.int64(0)
    if start < 0 or stop > len(text) or start > stop:
        return np.int64(NO_ROOM), np.int64(0)
    return _encode(
        np.int64(view.ctypes.data),
        np.int64(scratch.ctypes.data),
        np.int64(text.ctypes.data) + np.int64(start),
        np.int64(stop) - np.int64(start),
        np.int64(0),
        np.int64(0),
        True,
    )


@helper
def decode_into(view, scratch, ids, start, stop, out, at):
    """Decode ``ids[start:stop]`` (uint32), their bytes to ``out`` (uint8) from ``at`` on.

    Returns (DONE, index in ``out`` after the last byte); or (UNKNOWN_ID, its place in ``ids``), or (NO_ROOM or STALE,
    ``at``). What is in ``out`` after that index may be anything. A tokenizer whose tokens are far-apart ids, or are
    decoded as strings, has no view.
    """
    if view[len(view) - 1] != LAYOUT:
        return np.int64(STALE), np.int64(at)
    if start < 0 or stop > len(ids) or start > stop or at < 0 or at > len(out):
        return np.int64(NO_ROOM), np.int64(at)
    room = np.int64(len(out)) - np.int64(at)
    if start == stop:
        return np.int64(DONE), np.int64(at)
    if room == 0:
        return np.int64(NO_ROOM), np.int64(at)
    work = np.int64(scratch.ctypes.data)
    set_field(work, WORK_LIST, start)
    set_field(work, WORK_LIST + 1, stop)
    edges = work + 8 * WORK_LIST
    record = np.int64(view.ctypes.data)
    result = call_kernel(
        view[DECODER],
        (
            np.int64(ids.ctypes.data),
            edges,
            np.int64(1),
            field(record, TABLES),
            field(record, TABLES + 1),
            field(record, TABLES + 2),
            field(record, TABLES + 3),
            field(record, TABLES + 4),
            field(record, TABLES + 5),
            np.int64(out.ctypes.data) + np.int64(at),
            room,
            edges + 16,
        ),
    )
    if result >= 0:
        return np.int64(DONE), np.int64(at) + result
    if result == _NO_BYTES:
        return np.int64(NO_ROOM), np.int64(at)
    return np.int64(UNKNOWN_ID), -np.int64(1) - result
