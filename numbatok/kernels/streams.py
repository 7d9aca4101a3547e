"""Streams: encoding what can no longer change of a text that goes on, and decoding many streams of ids at once."""

import numpy as np

from numbatok.kernels.decode import LEFT_OUT, NO_ROOM, UNKNOWN, WIDEST_COPY
from numbatok.kernels.dtypes import (
    CHUNK_BLOCKS,
    NEED_BITMAP,
    U64,
    VIEW_CUTTER,
    VIEW_WALKER,
    WORK_NEEDED,
    WORK_OUTPUT_USED,
    WORK_POSITION,
    WORK_RESUME,
    WORK_STARTS,
    WORK_VIEW,
)
from numbatok.kernels.encode import encode_region, last_meeting
from numbatok.kernels.intrinsics import array_at, at, call_kernel, field, load_u64, put, set_field, store_u64, table
from numbatok.kernels.intrinsics_vector import copy_16_bytes
from numbatok.kernels.jit import helper, kernel
from numbatok.kernels.starts import LOOK_AHEAD, keep_tail, last_start

# Fields of a record: many streams of ids that are decoded, and by what.
STREAMS_COUNT = 0
STREAMS_WIDTH = 1  # bytes of each one's state
STREAMS_STATES = 2  # uint8[count, width]
STREAMS_OUTPUT = 4  # uint8
STREAMS_ENDS = 6  # int64[count], where each one's new text ends in the output
STREAMS_NUMBERS = 8  # int32, by id: a token's number, UNKNOWN or LEFT_OUT
STREAMS_STARTS = 10  # int64[tokens + 1], byte offsets of the tokens in the data
STREAMS_DATA = 12  # uint8
STREAMS_KINDS = 14  # uint8[tokens]: whether they are whole characters; of strings uint16[tokens]: a byte, or NO_BYTE
STREAMS_BLANK = 16  # uint8: the character that is stripped at the begin of each stream
STREAMS_FIELDS = 18

STATE_BYTES = 4  # of a stream of bytes: how many bytes of an open character there are, and these

# Of a stream of strings: a byte of blanks that may still be stripped, one of NO_RUN and so on, from the eighth on how
# many byte tokens are in a row, and then these bytes.
RUN_LENGTH, RUN_HEADER = 8, 16
NO_RUN, OPEN_RUN, BROKEN_RUN = range(3)
NO_BYTE = 256

NARROW_STATES = NO_ROOM + 1  # a state holds less than a run of byte tokens


@kernel("int64(int64, int64, int64, int64, int64)")
def encode_decided(work, text, length, is_end, only_end):
    """Encode text from where a pretoken begins, ``WORK_POSITION``, without added tokens, as far as it is decided.

    Where ``is_end`` is 1 the text ends at its ``length``, and all is encoded; where it is 0 anything may follow, and a
    pretoken that this could change is left. So are some tens of bytes: the place before which the rest begins is told
    by the length alone, and texts that end alike leave the same. ``WORK_POSITION`` is where the rest begins then. The
    scratch's output has room for all ids. Where ``only_end`` is 1 nothing is encoded: only that place is looked for.
    Returns how many ids, or a status after which the call is to be repeated once mended.
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
        most = (length - base + 63) >> 6 if is_end != 0 else (length - LOOK_AHEAD - base) >> 6
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
            if blocks == most:
                until = max(min(decided, length - LOOK_AHEAD - 64), base)
                end = last_meeting(view, work, text, length, base, length, blocks, until)
                if end < 0:
                    status = end
                    break
            else:
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


@kernel("int64(int64, int64, int64, int64)")
def decode_streams(record, ids, offsets, is_end):
    """Decode more ids of each stream to UTF-8, keeping the beginning of a character back; what is none is U+FFFD.

    Parameters
    ----------
    record : address of the fields ``STREAMS_...``
    ids : address of uint32, which nobody changes meanwhile
    offsets : address of int64[count + 1]: where each stream's begin in them, from 0 on
    is_end : 1: the streams end after these ids

    Returns how many bytes are written; or, with nothing changed, ``-1 - its place in ids`` for an unknown id, and
    NO_ROOM where the output may not suffice, which takes three bytes for each of a token's, and more.
    """
    streams = field(record, STREAMS_COUNT)
    begins = table(record, STREAMS_STARTS, np.int64)
    source = table(record, STREAMS_DATA, np.uint8)
    is_whole = table(record, STREAMS_KINDS, np.uint8)
    state = table(record, STREAMS_STATES, np.uint8)
    target = table(record, STREAMS_OUTPUT, np.uint8)
    end_of = table(record, STREAMS_ENDS, np.int64)
    numbers = table(record, STREAMS_NUMBERS, np.int32)
    edges = array_at(offsets, streams + 1, np.int64)
    given = array_at(ids, at(edges, streams), np.uint32)
    most = streams
    for i in range(at(edges, streams)):
        token = _token_of(given, i, numbers)
        if token >= 0:
            most += at(begins, token + 1) - at(begins, token)
        elif token != LEFT_OUT:
            return np.int64(-1 - i)
    if 3 * most + WIDEST_COPY > len(target):
        return np.int64(NO_ROOM)
    used = np.int64(0)
    for stream in range(streams):
        first = STATE_BYTES * stream
        for i in range(at(edges, stream), at(edges, stream + 1)):
            token = _token_of(given, i, numbers)
            if token < 0:
                continue
            begin = at(begins, token)
            size = at(begins, token + 1) - begin
            if at(is_whole, token) != 0 and at(state, first) == 0:
                copy_16_bytes(target, used, source, begin)
                for j in range(WIDEST_COPY, size):
                    put(target, used + j, at(source, begin + j))
                used += size
            else:
                for j in range(size):
                    used = _take_byte(state, first, at(source, begin + j), target, used)
        if is_end != 0 and at(state, first) != 0:
            used = _put_replacement(target, used)
            put(state, first, np.uint8(0))
        put(end_of, stream, used)
    return used


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
        length = np.int64(load_u64(state, first + RUN_LENGTH))
        begin = first + RUN_HEADER
        if _kind_of(state, begin, length) == 2:
            used = _put_stripped(state, first, blank, state, begin, length, output, used)
        else:
            put(state, first, np.uint8(0))
            for _ in range(length):
                used = _put_replacement(output, used)
    put(state, first + 1, np.uint8(NO_RUN))
    return used


@kernel("int64(int64, int64, int64, int64)")
def decode_string_streams(record, ids, offsets, is_end):
    """:func:`decode_streams` of tokens that are strings, some of which stand for bytes.

    Returns NARROW_STATES, too, with nothing changed.
    """
    streams = field(record, STREAMS_COUNT)
    width = field(record, STREAMS_WIDTH)
    begins = table(record, STREAMS_STARTS, np.int64)
    source = table(record, STREAMS_DATA, np.uint8)
    byte_of = table(record, STREAMS_KINDS, np.uint16)
    state = table(record, STREAMS_STATES, np.uint8)
    target = table(record, STREAMS_OUTPUT, np.uint8)
    end_of = table(record, STREAMS_ENDS, np.int64)
    blank = table(record, STREAMS_BLANK, np.uint8)
    numbers = table(record, STREAMS_NUMBERS, np.int32)
    edges = array_at(offsets, streams + 1, np.int64)
    given = array_at(ids, at(edges, streams), np.uint32)
    most = streams
    for stream in range(streams):
        first = width * stream
        run = np.int64(0)
        if at(state, first + 1) == OPEN_RUN:
            run = np.int64(load_u64(state, first + RUN_LENGTH))
            most += run
        for i in range(at(edges, stream), at(edges, stream + 1)):
            token = _token_of(given, i, numbers)
            if token == LEFT_OUT:
                continue
            if token < 0:
                return np.int64(-1 - i)
            most += at(begins, token + 1) - at(begins, token)
            run = run + 1 if at(byte_of, token) != NO_BYTE else np.int64(0)
            if RUN_HEADER + run > width:
                return np.int64(NARROW_STATES)
    if 3 * most + WIDEST_COPY > len(target):
        return np.int64(NO_ROOM)
    used = np.int64(0)
    for stream in range(streams):
        first = width * stream
        for i in range(at(edges, stream), at(edges, stream + 1)):
            token = _token_of(given, i, numbers)
            if token < 0:
                continue
            begin = at(begins, token)
            size = at(begins, token + 1) - begin
            byte = at(byte_of, token)
            run = at(state, first + 1)
            if byte == NO_BYTE:
                if run == NO_RUN and at(state, first) == 0:
                    copy_16_bytes(target, used, source, begin)
                    for j in range(WIDEST_COPY, size):
                        put(target, used + j, at(source, begin + j))
                    used += size
                    continue
                used = _end_run(state, first, blank, target, used)
                used = _put_stripped(state, first, blank, source, begin, size, target, used)
                continue
            if run == BROKEN_RUN:
                used = _put_replacement(target, used)
                continue
            length = np.int64(0)
            if run == OPEN_RUN:
                length = np.int64(load_u64(state, first + RUN_LENGTH))
            put(state, first + RUN_HEADER + length, np.uint8(byte))
            length += 1
            put(state, first + 1, np.uint8(OPEN_RUN))
            store_u64(state, first + RUN_LENGTH, U64(length))
            if _kind_of(state, first + RUN_HEADER, length) == 0:
                put(state, first, np.uint8(0))
                for _ in range(length):
                    used = _put_replacement(target, used)
                put(state, first + 1, np.uint8(BROKEN_RUN))
        if is_end != 0:
            used = _end_run(state, first, blank, target, used)
        put(end_of, stream, used)
    return used
