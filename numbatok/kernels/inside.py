"""Functions for other people's kernels: encode, count and decode inside a ``numba.njit`` function of one's own.

They take plain arrays: ``view`` is :meth:`numbatok.Tokenizer.kernel_view`, ``scratch`` is
:meth:`numbatok.Tokenizer.new_scratch`. The rules:

* one scratch is for one thread at a time, and for views of its own tokenizer; a view is for any number of them;
* the tokenizer lives at least as long as its views, and neither a view nor a scratch is copied or pickled: they hold
  addresses;
* text is UTF-8, uint8, in one piece; nothing checks that here. What is not encodes to some ids, and nothing worse;
* a tokenizer that normalizes text, or puts a space before it, has no view; templates are left to the caller, and added
  tokens become their ids wherever they stand.

Each returns (status, number). The status is DONE, which is 0, or below 0 what was in the way:

* NO_ROOM: ``out`` is too short, or places are not in their arrays. ``stop - start + ROOM`` elements after ``at`` always
  do for encoding;
* TOO_LONG: a pretoken is longer than the scratch was made for;
* UNKNOWN_ID: the number is the place of an id that is not in the vocabulary;
* OTHER_SCRATCH: the scratch is another tokenizer's than the view;
* STALE: this machine code, which Numba has cached, was compiled with another version of numbatok. Delete its cache.
"""

import zlib
from pathlib import Path

import numpy as np
from numba import types
from numba.core.errors import TypingError
from numba.extending import overload

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

__all__ = [
    "DONE",
    "NO_ROOM",
    "OTHER_SCRATCH",
    "ROOM",
    "STALE",
    "TOO_LONG",
    "UNKNOWN_ID",
    "count_in",
    "decode_into",
    "encode_into",
]

DONE = 0
NO_ROOM = -1  # ``out`` is too short: ``stop - start + ROOM`` elements after ``at`` always do for encoding
TOO_LONG = -2  # a pretoken is longer than the scratch was made for
STALE = -3  # this code was compiled with another version of numbatok
UNKNOWN_ID = -4  # the number is the place of an id that is not in the vocabulary
OTHER_SCRATCH = -5  # the scratch is another tokenizer's than the view
ROOM = dtypes.OUTPUT_SLACK

# After the view's fields: where decode_documents is, the six arguments that are its tables, a number of the
# tokenizer's, which stands at the end of its scratches too, and last of all the layout.
DECODER = VIEW_FIELDS
TABLES = DECODER + 1
ACCESS_FIELDS = TABLES + 8

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


def _outside() -> TypeError:
    return TypeError("this function is for numba.njit functions of one's own; from Python call the tokenizer's methods")


def _check(name, kind, dtype, writable=False):
    """TypingError unless a type is that of a contiguous one-dimensional array of ``dtype``."""
    wrong = not isinstance(kind, types.Array) or kind.ndim != 1 or kind.layout != "C" or kind.dtype != dtype
    if wrong or (writable and not kind.mutable):
        kept = "writable, " if writable else ""
        raise TypingError(f"{name} must be a {kept}contiguous one-dimensional array of {dtype}, not {kind}")


@helper
def _is_of(view, scratch):
    """Status of a view and a scratch: DONE, STALE, or OTHER_SCRATCH."""
    if view[len(view) - 1] != LAYOUT:
        return np.int64(STALE)
    return np.int64(DONE if view[len(view) - 2] == scratch[len(scratch) - 1] else OTHER_SCRATCH)


def encode_into(view, scratch, text, start, stop, out, at):
    """Encode ``text[start:stop]`` as a text of its own, its ids to ``out`` from ``at`` on.

    Parameters
    ----------
    view, scratch : int64 arrays; see the module
    text : uint8 array, UTF-8
    start, stop : byte offsets
    out : uint32 array
    at : index in ``out``

    Returns (DONE, index in ``out`` after the last id); or (NO_ROOM, TOO_LONG, OTHER_SCRATCH or STALE, ``at``). The next
    ROOM elements of ``out`` after that index may hold anything: leave them between texts that threads encode at once.
    Arrays of other types are a TypingError of Numba's.

    >>> @numba.njit(parallel=True)
    ... def encode_all(view, scratches, text, offsets, out, counts):
    ...     for worker in numba.prange(len(scratches)):
    ...         for i in range(worker, len(offsets) - 1, len(scratches)):
    ...             first, last = offsets[i], offsets[i + 1]
    ...             status, end = encode_into(view, scratches[worker], text, first, last, out, first + 4 * i)
    ...             counts[i] = end - first - 4 * i if status == 0 else status
    """
    raise _outside()


@overload(encode_into)
def _typed_encode_into(view, scratch, text, start, stop, out, at):
    _check("view", view, types.int64)
    _check("scratch", scratch, types.int64, writable=True)
    _check("text", text, types.uint8)
    _check("out", out, types.uint32, writable=True)

    def implementation(view, scratch, text, start, stop, out, at):
        status = _is_of(view, scratch)
        if status != DONE:
            return status, np.int64(at)
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

    return implementation


def count_in(view, scratch, text, start, stop):
    """Count the ids that :func:`encode_into` gives for ``text[start:stop]``, without keeping them.

    The arguments are those of :func:`encode_into`. Returns (DONE, how many), or (TOO_LONG, NO_ROOM, OTHER_SCRATCH or
    STALE, 0).

    >>> @numba.njit
    ... def count(view, scratch, text):
    ...     return count_in(view, scratch, text, 0, len(text))
    >>> count(tok.kernel_view(), tok.new_scratch(), np.frombuffer(bytearray(b"Hello world"), np.uint8))
    (0, 2)
    """
    raise _outside()


@overload(count_in)
def _typed_count_in(view, scratch, text, start, stop):
    _check("view", view, types.int64)
    _check("scratch", scratch, types.int64, writable=True)
    _check("text", text, types.uint8)

    def implementation(view, scratch, text, start, stop):
        status = _is_of(view, scratch)
        if status != DONE:
            return status, np.int64(0)
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

    return implementation


def decode_into(view, scratch, ids, start, stop, out, at):
    """Decode ``ids[start:stop]``, their bytes to ``out`` from ``at`` on.

    Parameters
    ----------
    view, scratch : int64 arrays; see the module
    ids : uint32 array
    start, stop : indices in ``ids``
    out : uint8 array
    at : index in ``out``

    Returns (DONE, index in ``out`` after the last byte); or (UNKNOWN_ID, its place in ``ids``), or (NO_ROOM,
    OTHER_SCRATCH or STALE, ``at``). What is in ``out`` after that index may be anything. A tokenizer whose tokens are
    far-apart ids, or are decoded as strings, has no view.

    >>> @numba.njit
    ... def decode(view, scratch, ids, out):
    ...     return decode_into(view, scratch, ids, 0, len(ids), out, 0)
    >>> out = np.zeros(64, np.uint8)
    >>> decode(tok.kernel_view(), tok.new_scratch(), np.array([15496, 995], np.uint32), out)
    (0, 11)
    >>> bytes(out[:11])
    b'Hello world'
    """
    raise _outside()


@overload(decode_into)
def _typed_decode_into(view, scratch, ids, start, stop, out, at):
    _check("view", view, types.int64)
    _check("scratch", scratch, types.int64, writable=True)
    _check("ids", ids, types.uint32)
    _check("out", out, types.uint8, writable=True)

    def implementation(view, scratch, ids, start, stop, out, at):
        status = _is_of(view, scratch)
        if status != DONE:
            return status, np.int64(at)
        if start < 0 or stop > len(ids) or start > stop or at < 0 or at > len(out):
            return np.int64(NO_ROOM), np.int64(at)
        room = np.int64(len(out)) - np.int64(at)
        if start == stop:
            return np.int64(DONE), np.int64(at)
        if room == 0:
            return np.int64(NO_ROOM), np.int64(at)
        work = np.int64(scratch.ctypes.data)
        result = _decode(
            np.int64(view.ctypes.data),
            work,
            np.int64(ids.ctypes.data),
            start,
            stop,
            np.int64(out.ctypes.data) + at,
            room,
        )
        if result >= 0:
            return np.int64(DONE), np.int64(at) + result
        if result == _NO_BYTES:
            return np.int64(NO_ROOM), np.int64(at)
        return np.int64(UNKNOWN_ID), -np.int64(1) - result

    return implementation


@helper
def _decode(view, work, ids, start, stop, out, room):
    """What ``decode_documents`` returns for one document."""
    set_field(work, WORK_LIST, np.int64(start))
    set_field(work, WORK_LIST + 1, np.int64(stop))
    edges = work + 8 * WORK_LIST
    tables = (field(view, TABLES), field(view, TABLES + 1), field(view, TABLES + 2))
    more = (field(view, TABLES + 3), field(view, TABLES + 4), field(view, TABLES + 5))
    arguments = (ids, edges, np.int64(1), *tables, *more, np.int64(out), room, edges + 16)
    return call_kernel(field(view, DECODER), arguments)
