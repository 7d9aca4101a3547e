"""Where pretokens begin, as a list, for those who count the tokens of a text's parts."""

import numpy as np

from numbatok.kernels.dtypes import (
    NEED_BITMAP,
    NEED_OUTPUT,
    ONE,
    U64,
    VIEW_DROPS,
    VIEW_WALKER,
    WORK_DROPPED,
    WORK_NEEDED,
    WORK_STARTS,
    WORK_VIEW,
    ZERO,
)
from numbatok.kernels.intrinsics import (
    array_at,
    at,
    call_kernel,
    field,
    put,
    set_bits,
    set_field,
    table,
    trailing_zeros,
)
from numbatok.kernels.intrinsics_vector import in_range
from numbatok.kernels.jit import helper, kernel
from numbatok.kernels.starts import LOOK_AHEAD, is_set, keep_tail


@kernel("int64(int64, int64, int64, int64, int64, int64, int64)")
def list_starts(work, text, length, base, blocks, output, capacity):
    """Write the byte offsets where pretokens of a text begin, in one walk of ``blocks`` blocks from ``base`` on.

    Parameters
    ----------
    work : address of a scratch record
    text, length : address of the text, without added tokens, and its bytes
    base : where a pretoken begins
    blocks : how many blocks of 64 bytes to walk; where they do not reach the text's end, only starts are written that
        stay, however the text goes on after it
    output : address of int64[capacity]; a start ``s`` of a piece that the split rule removes is written as ``-1 - s``

    Returns how many, or a status: NEED_OUTPUT, or NEED_BITMAP or NEED_MARKS with ``WORK_NEEDED`` set.
    """
    starts = table(work, WORK_STARTS, np.uint64)
    dropped = table(work, WORK_DROPPED, np.uint64)
    view = field(work, WORK_VIEW)
    drops = field(view, VIEW_DROPS) != 0
    places = array_at(output, capacity, np.int64)
    if blocks >= len(starts):
        set_field(work, WORK_NEEDED, blocks + 1)
        return np.int64(NEED_BITMAP)
    keep_tail(work, text, length)
    decided = call_kernel(field(view, VIEW_WALKER), (view, work, text, length, base, length, blocks))
    if decided < 0:
        return decided
    used = np.int64(0)
    for block in range(blocks):
        bits = at(starts, block)
        while bits != ZERO:
            bit = 64 * block + np.int64(trailing_zeros(bits))
            bits &= bits - ONE
            if base + bit >= decided:
                return used
            if used >= capacity:
                return np.int64(NEED_OUTPUT)
            start = base + bit
            put(places, used, -1 - start if drops and is_set(dropped, bit) else start)
            used += 1
    return used


@helper
def walk_all(work, text, length, blocks):
    """Walk a text from its beginning; returns where the walk ended, or a status."""
    starts = table(work, WORK_STARTS, np.uint64)
    if blocks >= len(starts):
        set_field(work, WORK_NEEDED, blocks + 1)
        return np.int64(NEED_BITMAP)
    keep_tail(work, text, length)
    view = field(work, WORK_VIEW)
    return call_kernel(field(view, VIEW_WALKER), (view, work, text, length, np.int64(0), length, blocks))


@helper
def _list(work, text, begin, end, is_final, output, used, capacity):
    """Write where pretokens of ``text[begin:end]`` begin; returns how many places are written, ``used`` before."""
    starts = table(work, WORK_STARTS, np.uint64)
    places = array_at(output, capacity, np.int64)
    length = end - begin
    blocks = (length + 63) >> 6 if is_final else max(length - LOOK_AHEAD, 0) >> 6
    if used >= capacity:
        return np.int64(NEED_OUTPUT)
    put(places, used, begin)
    if blocks == 0:
        return used + 1
    status = walk_all(work, text + begin, length, blocks)
    if status < 0:
        return status
    for block in range(blocks):
        bits = at(starts, block)
        while bits != ZERO:
            place = 64 * block + np.int64(trailing_zeros(bits))
            bits &= bits - ONE
            if place >= status:
                return used
            if used >= capacity:
                return np.int64(NEED_OUTPUT)
            put(places, used, begin + place)
            used += 1
    return used


@kernel("int64(int64, int64, int64, int64, int64, int64, int64, int64, int64)")
def list_starts_between(work, text, begin, end, is_final, added, count, output, capacity):
    """Write where the pieces of a part of a text begin: its pretokens, and its added tokens.

    Parameters
    ----------
    work : address of a scratch record
    text : address of the text
    begin, end : byte offsets of the part
    is_final : 1 where the text ends with it; else those starts alone are written that stay, however the text goes on
    added : address of int64[count, 2], begin and end of each added token in it, in order
    output : address of int64[capacity]

    Returns how many, or a status as :func:`list_starts` does.
    """
    tokens = array_at(added, 2 * count, np.int64)
    places = array_at(output, capacity, np.int64)
    used = np.int64(0)
    for i in range(count):
        start = at(tokens, 2 * i)
        if begin < start:
            used = _list(work, text, begin, start, True, output, used, capacity)
            if used < 0:
                return used
        if used >= capacity:
            return np.int64(NEED_OUTPUT)
        put(places, used, start)
        used += 1
        begin = at(tokens, 2 * i + 1)
    if begin < end:
        used = _list(work, text, begin, end, is_final != 0, output, used, capacity)
    return used


@kernel("int64(int64, int64, int64, int64, int64)")
def add_sizes(ids, count, sizes, begin, ends):
    """Write where each of ``count`` tokens ends, the first of which begins at ``begin``; return the last end.

    ``ids`` is the address of uint32[count], ``sizes`` that of int32, how many bytes each id has, ``ends`` that of
    int64[count].
    """
    numbers = array_at(ids, count, np.uint32)
    widths = array_at(sizes, np.int64(1) << 32, np.int32)
    edges = array_at(ends, count, np.int64)
    for i in range(count):
        begin += np.int64(at(widths, np.int64(at(numbers, i))))
        put(edges, i, begin)
    return begin


@helper
def characters_between(text, begin, end):
    """How many characters of the UTF-8 at an address begin from one byte offset on and before another."""
    count = np.int64(0)
    while begin + 64 <= end:
        count += 64 - np.int64(set_bits(in_range(text + begin, 0x80, 0x40)))
        begin += 64
    if begin < end and end >= 64:
        trailing = in_range(text + end - 64, 0x80, 0x40) >> U64(64 - (end - begin))
        return count + end - begin - np.int64(set_bits(trailing))
    source = array_at(text, end, np.uint8)
    while begin < end:
        count += np.int64(at(source, begin) & np.uint8(0xC0) != np.uint8(0x80))
        begin += 1
    return count


@kernel("int64(int64, int64, int64, int64)")
def count_characters(text, places, count, numbers):
    """Write how many characters of a text begin before each of ``count`` places, which rise; return the last number.

    ``text`` is the address of UTF-8, ``places`` and ``numbers`` are those of int64[count].
    """
    edges = array_at(places, count, np.int64)
    found = array_at(numbers, count, np.int64)
    before = np.int64(0)
    done = np.int64(0)
    for i in range(count):
        before += characters_between(text, done, at(edges, i))
        done = at(edges, i)
        put(found, i, before)
    return before


@kernel("int64(int64, int64, int64, int64)")
def has_bytes(text, length, ranges, count):
    """Whether a text, at the address ``text``, has a byte of one of some ranges: 1 or 0.

    ``ranges`` is the address of int64[count, 2]: the first byte of each, and how many bytes it has.
    """
    sought = array_at(ranges, 2 * count, np.int64)
    source = array_at(text, length, np.uint8)
    found = ZERO
    for i in range(count):
        first, size = at(sought, 2 * i), at(sought, 2 * i + 1)
        for block in range(0, length - 63, 64):
            found |= in_range(text + block, first, size)
        for place in range(length & ~63, length):
            found |= U64(first <= np.int64(at(source, place)) < first + size)
    return np.int64(found != ZERO)


@helper
def _starts_below(starts, block, length):
    """The word of a bitmap with the starts below bit ``length``; others are zero."""
    bits = at(starts, block)
    return bits if 64 * block + 64 <= length else bits & ((ONE << U64(length - 64 * block)) - ONE)


@kernel("int64(int64, int64, int64, int64, int64, int64, int64, int64)")
def agreeing_cuts(work, text, begins, count, meeting, stop, kept, agree):
    """Tell which suffixes of a text can be counted in two parts, up to ``meeting`` and from there on.

    That is where a pretoken begins at ``meeting``, and those before it are the same as if the text ended there.

    Parameters
    ----------
    work : address of a scratch record
    text : address of the text
    begins : address of int64[count], byte offsets below ``meeting`` where suffixes begin
    meeting, stop : byte offsets; what lies behind ``stop`` is not looked at, and may be anything
    kept : address of uint64, of a word for each 64 bytes from the first suffix to ``meeting``, and one more
    agree : address of uint8[count], set to 1 or 0

    Returns 0, or NEED_BITMAP or NEED_MARKS, after which the call is to be repeated.
    """
    places = array_at(begins, count, np.int64)
    found = array_at(agree, count, np.uint8)
    for i in range(count):
        begin = at(places, i)
        width = meeting - begin
        words = (width + 63) >> 6
        status = walk_all(work, text + begin, width, words)
        if status < 0:
            return status
        alone = array_at(kept, words, np.uint64)
        starts = table(work, WORK_STARTS, np.uint64)
        for block in range(words):
            put(alone, block, _starts_below(starts, block, width))
        blocks = (stop - begin) >> 6
        status = walk_all(work, text + begin, stop - begin, blocks)
        if status < 0:
            return status
        same = width < status and is_set(starts, width)
        if same:
            for block in range(words):
                same &= _starts_below(starts, block, width) == at(alone, block)
        put(found, i, np.uint8(1) if same else np.uint8(0))
    return np.int64(0)
