"""Streams: encoding what can no longer change of a text that goes on, and decoding many streams of ids at once."""

import numpy as np

from numbatok.kernels.decode import LEFT_OUT, NO_ROOM, UNKNOWN, WIDEST_COPY
from numbatok.kernels.dtypes import (
    CHUNK_BLOCKS,
    NEED_BITMAP,
    VIEW_CUTTER,
    VIEW_WALKER,
    WORK_NEEDED,
    WORK_OUTPUT_USED,
    WORK_POSITION,
    WORK_RESUME,
    WORK_STARTS,
    WORK_VIEW,
)
from numbatok.kernels.encode import encode_region
from numbatok.kernels.intrinsics import array_at, at, call_kernel, field, put, set_field, table
from numbatok.kernels.intrinsics_vector import copy_16_bytes
from numbatok.kernels.jit import helper, kernel
from numbatok.kernels.starts import keep_tail, last_start

#: Bytes before an end that may not be one which no walk comes near: walkers look a few bytes ahead of their blocks.
MARGIN = 16

STATE_BYTES = 4  # of each stream: how many bytes of an open character there are, and these


@kernel("int64(int64, int64, int64, int64, int64)")
def encode_decided(work, text, length, is_end, only_end):
    """Encode text from where a pretoken begins, ``WORK_POSITION``, without added tokens, as far as it is decided.

    Where ``is_end`` is 1 the text ends at its ``length``, and all is encoded; where it is 0 anything may follow, and a
    pretoken that this could change is left. ``WORK_POSITION`` is where the rest begins then. The scratch's output has
    room for all ids. Where ``only_end`` is 1 nothing is encoded: only that place is looked for. Returns how many ids,
    or a status after which the call is to be repeated once mended.
    """
    view = field(work, WORK_VIEW)
    starts = table(work, WORK_STARTS, np.uint64)
    walker = field(view, VIEW_WALKER)
    cutter = field(view, VIEW_CUTTER)
    base = field(work, WORK_POSITION)
    resume = field(work, WORK_RESUME)
    used = field(work, WORK_OUTPUT_USED)
    keep_tail(work, text, length)
    reach = np.int64(CHUNK_BLOCKS)
    status = np.int64(0)
    while base < length:
        most = (length - base + 63) >> 6 if is_end != 0 else (length - MARGIN - base) >> 6
        blocks = min(most, reach)
        if blocks <= 0:
            break
        if blocks >= len(starts):
            set_field(work, WORK_NEEDED, blocks + 1)
            status = np.int64(NEED_BITMAP)
            break
        decided = call_kernel(walker, (view, work, text, length, base, length, blocks))
        if decided < 0:
            status = decided
            break
        end = length
        if decided < length:
            end = base + last_start(starts, min(decided - base, 64 * blocks - 1))
            if end == base:
                if blocks == most:
                    break
                reach *= 4
                continue
        if only_end == 0:
            if cutter != 0:
                call_kernel(cutter, (view, work, text, length, base, end))
            status, resume, used = encode_region(view, work, text, length, base, end, resume, used)
            if status != 0:
                break
        base = end
        resume = end
        reach = np.int64(CHUNK_BLOCKS)
    set_field(work, WORK_POSITION, base)
    set_field(work, WORK_RESUME, resume)
    set_field(work, WORK_OUTPUT_USED, used)
    return used if status == 0 else status


@helper
def _put_replacement(output, used):
    """Put U+FFFD at ``output[used:]``; returns where it ends."""
    put(output, used, np.uint8(0xEF))
    put(output, used + 1, np.uint8(0xBF))
    put(output, used + 2, np.uint8(0xBD))
    return used + 3


@helper
def _width(lead):
    """Bytes of the character that a byte begins, or 0 for one that begins none."""
    if lead < 0x80:
        return np.int64(1)
    if 0xC2 <= lead < 0xE0:
        return np.int64(2)
    if 0xE0 <= lead < 0xF0:
        return np.int64(3)
    if 0xF0 <= lead < 0xF5:
        return np.int64(4)
    return np.int64(0)


@helper
def _goes_on(lead, place, byte):
    """Whether a byte may stand ``place`` bytes after the first of a character."""
    low, high = 0x80, 0xBF
    if place == 1:
        if lead == 0xE0:
            low = 0xA0
        elif lead == 0xED:
            high = 0x9F
        elif lead == 0xF0:
            low = 0x90
        elif lead == 0xF4:
            high = 0x8F
    return low <= byte <= high


@helper
def _token_of(ids, place, numbers):
    """The token of an id, LEFT_OUT or UNKNOWN."""
    number = np.int64(at(ids, place))
    return np.int64(at(numbers, number)) if number < len(numbers) else np.int64(UNKNOWN)


@helper
def _given(ids, offsets, streams, token_of_id, id_limit):
    """The arrays of what is given: where each stream's ids begin, these, and the token of each id."""
    edges = array_at(offsets, streams + 1, np.int64)
    given = array_at(ids, at(edges, streams), np.uint32)
    return edges, given, array_at(token_of_id, id_limit, np.int32)


@helper
def _contents(starts, tokens, data, data_bytes, output, capacity, ends, streams):
    """The arrays of tokens and results: where each token's bytes begin, these, the text made, and where it ends."""
    return (
        array_at(starts, tokens + 1, np.int64),
        array_at(data, data_bytes, np.uint8),
        array_at(output, capacity, np.uint8),
        array_at(ends, streams, np.int64),
    )


@helper
def _take_byte(state, first, byte, output, used):
    """Put what a byte makes certain; the state's bytes from ``first`` on are the open character."""
    kept = np.int64(at(state, first))
    if kept > 0:
        lead = at(state, first + 1)
        if _goes_on(lead, kept, byte):
            if kept + 1 < _width(lead):
                put(state, first + 1 + kept, byte)
                put(state, first, np.uint8(kept + 1))
                return used
            for i in range(kept):
                put(output, used + i, at(state, first + 1 + i))
            put(output, used + kept, byte)
            put(state, first, np.uint8(0))
            return used + kept + 1
        put(state, first, np.uint8(0))
        used = _put_replacement(output, used)
    width = _width(byte)
    if width == 1:
        put(output, used, byte)
        return used + 1
    if width == 0:
        return _put_replacement(output, used)
    put(state, first, np.uint8(1))
    put(state, first + 1, byte)
    return used


@kernel(
    "int64(int64, int64, int64, int64, int64, int64, int64, int64, int64, int64, int64, int64, int64, int64, int64)"
)
def decode_streams(
    ids,
    offsets,
    streams,
    token_of_id,
    id_limit,
    whole,
    starts,
    tokens,
    data,
    data_bytes,
    states,
    is_end,
    output,
    capacity,
    ends,
):
    """Decode more ids of each stream to UTF-8, keeping the beginning of a character back; what is none is U+FFFD.

    Parameters
    ----------
    ids, offsets, token_of_id, starts, data, output, ends : as :func:`decode.decode_documents` takes them, a stream in
        place of a document
    whole : address of uint8[tokens]: whether a token's bytes are whole characters
    states : address of uint8[streams, STATE_BYTES]
    is_end : 1: the streams end after these ids

    Returns how many bytes are written. An unknown id is reported as ``-1 - its place in ids``, with the streams before
    it changed already; NO_ROOM where ``capacity``, that holds three bytes for each of a token's and WIDEST_COPY more,
    does not suffice.
    """
    edges, given, numbers = _given(ids, offsets, streams, token_of_id, id_limit)
    begins, source, target, end_of = _contents(starts, tokens, data, data_bytes, output, capacity, ends, streams)
    is_whole = array_at(whole, tokens, np.uint8)
    state = array_at(states, STATE_BYTES * streams, np.uint8)
    used = np.int64(0)
    for stream in range(streams):
        first = STATE_BYTES * stream
        for i in range(at(edges, stream), at(edges, stream + 1)):
            token = _token_of(given, i, numbers)
            if token == LEFT_OUT:
                continue
            if token < 0:
                return np.int64(-1 - i)
            begin = at(begins, token)
            size = at(begins, token + 1) - begin
            if used + 3 * size + WIDEST_COPY > capacity:
                return np.int64(NO_ROOM)
            if at(is_whole, token) != 0 and at(state, first) == 0:
                copy_16_bytes(target, used, source, begin)
                for j in range(WIDEST_COPY, size):
                    put(target, used + j, at(source, begin + j))
                used += size
            else:
                for j in range(size):
                    used = _take_byte(state, first, at(source, begin + j), target, used)
        if is_end != 0 and at(state, first) != 0:
            if used + WIDEST_COPY > capacity:
                return np.int64(NO_ROOM)
            used = _put_replacement(target, used)
            put(state, first, np.uint8(0))
        put(end_of, stream, used)
    return used


# Of each stream of strings: blanks that may still be stripped, NO_RUN and so on, two bytes of how many byte tokens are
# in a row, and these bytes.
RUN_HEADER = 4
NO_RUN, OPEN_RUN, BROKEN_RUN = range(3)
MOST_RUN = (1 << 16) - 1
NO_BYTE = 256


@helper
def _put_stripped(state, first, blank, source, begin, size, output, used):
    """Put ``source[begin:begin + size]``, without the blanks that are still to be stripped; returns where it ends."""
    left = np.int64(at(state, first))
    width = len(blank)
    while left > 0 and size > 0:
        same = np.int64(0)
        while same < min(width, size) and at(source, begin + same) == at(blank, same):
            same += 1
        if same < width:
            left = np.int64(0)
        else:
            left -= 1
            begin += width
            size -= width
        put(state, first, np.uint8(left))
    for i in range(size):
        put(output, used + i, at(source, begin + i))
    return used + size


@helper
def _last_lead(state, begin, length):
    """Where the character begins that the byte before ``length`` is of, at most three bytes before that."""
    lead = length - 1
    while lead > 0 and length - lead < 4 and at(state, begin + lead) & 0xC0 == 0x80:
        lead -= 1
    return lead


@helper
def _kind_of(state, begin, length):
    """1 where bytes are UTF-8 that ends inside a character, 2 where they are whole characters, else 0.

    All but the last byte are one of both.
    """
    lead = _last_lead(state, begin, length)
    if lead > 0:
        before = _last_lead(state, begin, lead)
        if lead - before != _width(at(state, begin + before)):
            return 0
    width = _width(at(state, begin + lead))
    if width == 0 or length - lead > width:
        return 0
    for i in range(lead + 1, length):
        if not _goes_on(at(state, begin + lead), i - lead, at(state, begin + i)):
            return 0
    return 2 if length - lead == width else 1


@helper
def _end_run(state, first, blank, output, used):
    """Put the bytes of a run that is over: as text if they are UTF-8, else as U+FFFD each."""
    if at(state, first + 1) == OPEN_RUN:
        length = np.int64(at(state, first + 2)) | np.int64(at(state, first + 3)) << 8
        begin = first + RUN_HEADER
        if _kind_of(state, begin, length) == 2:
            used = _put_stripped(state, first, blank, state, begin, length, output, used)
        else:
            put(state, first, np.uint8(0))
            for _ in range(length):
                used = _put_replacement(output, used)
    put(state, first + 1, np.uint8(NO_RUN))
    return used


@kernel(
    "int64(int64, int64, int64, int64, int64, int64, int64, int64, int64, int64, int64, int64, int64, int64, int64,"
    " int64, int64, int64)"
)
def decode_string_streams(
    ids,
    offsets,
    streams,
    token_of_id,
    id_limit,
    byte_of,
    starts,
    tokens,
    data,
    data_bytes,
    states,
    state_bytes,
    blank,
    blank_bytes,
    is_end,
    output,
    capacity,
    ends,
):
    """:func:`decode_streams` of tokens that are strings, some of which stand for bytes.

    Parameters
    ----------
    byte_of : address of uint16[tokens]: the byte that a token stands for, or NO_BYTE
    states : address of uint8[streams, state_bytes], as RUN_HEADER says
    blank, blank_bytes : the character that is stripped at the begin of a stream
    is_end : 1: the streams end after these ids

    NO_ROOM also where a run of byte tokens is longer than the states hold.
    """
    edges, given, numbers = _given(ids, offsets, streams, token_of_id, id_limit)
    begins, source, target, end_of = _contents(starts, tokens, data, data_bytes, output, capacity, ends, streams)
    bytes_ = array_at(byte_of, tokens, np.uint16)
    state = array_at(states, state_bytes * streams, np.uint8)
    stripped = array_at(blank, blank_bytes, np.uint8)
    used = np.int64(0)
    for stream in range(streams):
        first = state_bytes * stream
        for i in range(at(edges, stream), at(edges, stream + 1)):
            token = _token_of(given, i, numbers)
            if token == LEFT_OUT:
                continue
            if token < 0:
                return np.int64(-1 - i)
            size = at(begins, token + 1) - at(begins, token)
            length = np.int64(at(state, first + 2)) | np.int64(at(state, first + 3)) << 8
            if used + 3 * length + size + WIDEST_COPY > capacity:
                return np.int64(NO_ROOM)
            byte = at(bytes_, token)
            run = at(state, first + 1)
            if byte == NO_BYTE:
                if run == NO_RUN and at(state, first) == 0:
                    copy_16_bytes(target, used, source, at(begins, token))
                    for j in range(WIDEST_COPY, size):
                        put(target, used + j, at(source, at(begins, token) + j))
                    used += size
                    continue
                used = _end_run(state, first, stripped, target, used)
                used = _put_stripped(state, first, stripped, source, at(begins, token), size, target, used)
                continue
            if run == BROKEN_RUN:
                used = _put_replacement(target, used)
                continue
            if run == NO_RUN:
                length = np.int64(0)
            if RUN_HEADER + length >= state_bytes or length >= MOST_RUN:
                return np.int64(NO_ROOM)
            put(state, first + RUN_HEADER + length, np.uint8(byte))
            length += 1
            put(state, first + 1, np.uint8(OPEN_RUN))
            put(state, first + 2, np.uint8(length & 0xFF))
            put(state, first + 3, np.uint8(length >> 8))
            if _kind_of(state, first + RUN_HEADER, length) == 0:
                put(state, first, np.uint8(0))
                for _ in range(length):
                    used = _put_replacement(target, used)
                put(state, first + 1, np.uint8(BROKEN_RUN))
                put(state, first + 2, np.uint8(0))
                put(state, first + 3, np.uint8(0))
        if is_end != 0:
            length = np.int64(at(state, first + 2)) | np.int64(at(state, first + 3)) << 8
            if used + 3 * length + WIDEST_COPY > capacity:
                return np.int64(NO_ROOM)
            used = _end_run(state, first, stripped, target, used)
        put(end_of, stream, used)
    return used
