"""UTF-8: made of the characters that CPython keeps in a ``str``, one, two or four bytes each, and checked.

It is made in steps of 64 characters where all are ASCII, and of 16 where the processor can put the bytes that a mask
selects side by side. On others in steps of 16 that take the same number of bytes each, and without branches where they
are mixed: a branch for each character is guessed wrong once a word in Russian. GB/s of UTF-8 with that instruction,
without it, and by CPython: English 5.8, 4.4, 2.2; German 4.4, 2.1, 1.5; Russian 8.1, 1.0, 0.9; Korean 6.1, 1.0, 0.7;
Chinese 6.7, 1.1, 1.6.
"""

import numpy as np

from numbatok.kernels.dtypes import (
    TEXT_CHARACTERS,
    TEXT_COUNT,
    TEXT_FIELDS,
    TEXT_PLACE,
    TEXT_SIZE,
    TEXT_WIDTH,
    U64,
    ZERO,
)
from numbatok.kernels.intrinsics import array_at, at, call_kernel, field, load_u64, put, set_field, store_u64
from numbatok.kernels.intrinsics_vector import (
    equal_to,
    in_range,
    narrow_16,
    narrow_64,
    put_16_by_three,
    put_16_characters,
    selects_bytes,
)
from numbatok.kernels.jit import helper, kernel

_HIGH_BITS = np.uint64(0x8080808080808080)


@helper
def _mix_16(source, i, target, used):
    """Write the characters ``source[i:i+16]`` without a branch for how many bytes each takes; return where they end.

    Stops before a surrogate, or one of four bytes. Up to eight bytes after the end are overwritten.
    """
    for j in range(i, i + 16):
        point = np.uint64(at(source, j))
        if point >= U64(0xD800) and (point < U64(0xE000) or point >= U64(0x10000)):
            return j, used
        last = U64(0x80) | point & U64(0x3F)
        middle = U64(0x80) | point >> U64(6) & U64(0x3F)
        two = U64(0xC0) | point >> U64(6) | last << U64(8)
        three = U64(0xE0) | point >> U64(12) | middle << U64(8) | last << U64(16)
        store_u64(target, used, point if point < U64(0x80) else two if point < U64(0x800) else three)
        used += np.int64(1) + np.int64(point >= U64(0x80)) + np.int64(point >= U64(0x800))
    return i + 16, used


@helper
def _transcode(source, target):
    """Write the characters of ``source`` as UTF-8; see :func:`transcode_utf8`."""
    length = len(source)
    room = len(target)
    used = np.int64(0)
    i = np.int64(0)
    while i < length:
        begin = i
        # How far a step goes must not depend on what it found: the processor guesses a branch, but waits for a count.
        # 16 MB of English take 4 ms this way instead of 13.
        while i + 64 <= length and used + 64 <= room and narrow_64(target, used, source, i):
            i += 64
            used += 64
        stop = i + 64
        while i < stop and i + 16 <= length and used + 64 <= room:
            size = put_16_characters(target, used, source, i, 0)
            if size == 0:
                break
            i += 16
            used += size
        if i < length and length - i < 16 <= length and used + 64 <= room:
            size = put_16_characters(target, used, source, length - 16, 16 - (length - i))
            if size != 0:
                return used + size
        while i < stop and i + 17 <= length and used + 18 <= room:
            ascii_here = narrow_16(target, used, source, i)
            i += ascii_here
            used += ascii_here
            if ascii_here == 16:
                continue
            point = np.int64(at(source, i))
            if at(source, i + 1) >= 0x80 or point >= 0x800:
                break
            put(target, used, np.uint8(0xC0 | point >> 6))
            put(target, used + 1, np.uint8(0x80 | point & 0x3F))
            i += 1
            used += 2
        if i >= stop:
            continue
        while i + 16 <= length and used + 52 <= room and put_16_by_three(target, used, source, i):
            i += 16
            used += 48
        # Mixed characters, until nearly all are ASCII or nearly all take three bytes again.
        while i + 16 <= length and used + 56 <= room:
            reached, end = _mix_16(source, i, target, used)
            done, size = reached - i, end - used
            i, used = reached, end
            if done < 16 or size < 20 or size >= 44:
                break
        if i > begin:
            continue
        # What no step takes: the last characters, those of four bytes, what is wrong.
        point = np.int64(at(source, i))
        size = _utf8_size(point)
        if used + size > room or 0xD800 <= point < 0xE000:
            return np.int64(-1)
        if size == 1:
            put(target, used, np.uint8(point))
        else:
            put(target, used, np.uint8((0xF00 >> size & 0xFF) | point >> 6 * (size - 1)))
        for trail in range(1, size):
            put(target, used + trail, np.uint8(0x80 | point >> 6 * (size - 1 - trail) & 0x3F))
        used += size
        i += 1
    return used


@helper
def _utf8_size(point):
    """How many bytes of UTF-8 a code point takes."""
    return np.int64(1) + np.int64(point >= 0x80) + np.int64(point >= 0x800) + np.int64(point >= 0x10000)


@helper
def _size_of(source):
    """Bytes of UTF-8 that the characters of ``source`` take."""
    size = np.int64(0)
    for i in range(len(source)):
        size += _utf8_size(np.int64(at(source, i)))
    return size


@kernel("int64(int64, int64, int64, int64, int64)")
def transcode_utf8(characters, length, kind, output, capacity):
    """Write ``length`` characters of ``kind`` bytes each as UTF-8 to uint8[capacity]; return how many bytes.

    With ``output`` 0 the bytes are only counted. Returns -1 where a lone surrogate is among the characters, or where
    there are more bytes than ``capacity``.
    """
    target = array_at(output, capacity, np.uint8)
    if kind == 1:
        source = array_at(characters, length, np.uint8)
        return _size_of(source) if output == 0 else _transcode(source, target)
    if kind == 2:
        wide = array_at(characters, length, np.uint16)
        return _size_of(wide) if output == 0 else _transcode(wide, target)
    widest = array_at(characters, length, np.uint32)
    return _size_of(widest) if output == 0 else _transcode(widest, target)


@kernel("int64()")
def transcodes_fast():
    """1 on a processor that makes UTF-8 several times as fast as CPython does, or 0."""
    return np.int64(selects_bytes())


@kernel("int64(int64, int64, int64, int64, int64)")
def transcode_texts(transcoder, rows, count, place, end):
    """Write the UTF-8 of texts one after the other from address ``place`` on; all of it ends before ``end``.

    ``rows`` is int64[count, TEXT_FIELDS], of which TEXT_PLACE and TEXT_SIZE are set: the size is -1 where a lone
    surrogate is in a text. ``transcoder`` is the address of :func:`transcode_utf8`.
    """
    for number in range(count):
        row = rows + 8 * TEXT_FIELDS * number
        characters = (field(row, TEXT_CHARACTERS), field(row, TEXT_COUNT), field(row, TEXT_WIDTH))
        size = call_kernel(transcoder, (*characters, place, end - place))
        set_field(row, TEXT_PLACE, place)
        set_field(row, TEXT_SIZE, size)
        place += max(size, 0)
    return np.int64(0)


@helper
def _continues(text, position, stop):
    """Whether ``text[position]`` exists and is a continuation byte."""
    return position < stop and at(text, position) & np.uint8(0xC0) == np.uint8(0x80)


@helper
def _valid_blocks(text, address):
    """Check blocks of 64 bytes; returns a character's first byte before which all is UTF-8.

    That is near the end, or near a block in which something is not. As bitmaps: the bytes that must continue a
    character, since a lead is one, two or three before, are those that do; and after four of the leads, which could
    spell a code point too small, too large or a surrogate, not all of them may.
    """
    length = len(text)
    position = np.int64(0)
    follow = small = surrogate = tiny = huge = ZERO  # what the last bytes of the block before ask of this one
    while position + 64 <= length:
        place = address + position
        beyond_ascii = in_range(place, 0x80, 0x80)
        if beyond_ascii | follow == ZERO:
            position += 64
            continue
        continues = in_range(place, 0x80, 0x40)
        three = in_range(place, 0xE0, 0x10)
        four = in_range(place, 0xF0, 0x05)
        any_lead = in_range(place, 0xC2, 0x1E) | three | four
        three |= four
        wanted = any_lead << U64(1) | three << U64(2) | four << U64(3) | follow
        wrong = (beyond_ascii ^ any_lead ^ continues) | (wanted ^ continues)
        next_follow = any_lead >> U64(63) | three >> U64(62) | four >> U64(61)
        if three | small | surrogate | tiny | huge != ZERO:
            lowest = in_range(place, 0x80, 0x10)
            lower = in_range(place, 0x80, 0x20)
            e0, ed = equal_to(place, 0xE0), equal_to(place, 0xED)
            f0, f4 = equal_to(place, 0xF0), equal_to(place, 0xF4)
            wrong |= (e0 << U64(1) | small) & lower | (ed << U64(1) | surrogate) & continues & ~lower
            wrong |= (f0 << U64(1) | tiny) & lowest | (f4 << U64(1) | huge) & continues & ~lowest
            small, surrogate, tiny, huge = e0 >> U64(63), ed >> U64(63), f0 >> U64(63), f4 >> U64(63)
        if wrong != ZERO:
            break
        follow = next_follow
        position += 64
    if follow != ZERO:
        position -= 1
        while at(text, position) < 0xC0:
            position -= 1
    return position


@helper
def _first_invalid(address, length):
    """See :func:`first_invalid_utf8`."""
    text = array_at(address, length, np.uint8)
    position = _valid_blocks(text, address)
    while position < length:
        while position + 8 <= length and load_u64(text, position) & _HIGH_BITS == ZERO:
            position += 8
        if position == length:
            break
        lead = at(text, position)
        if lead < 0x80:
            position += 1
            continue
        second = at(text, position + 1) if position + 1 < length else np.uint8(0)
        if 0xC2 <= lead < 0xE0:
            size = 2
            low, high = 0x80, 0xBF
        elif 0xE0 <= lead < 0xF0:
            size = 3
            low = 0xA0 if lead == 0xE0 else 0x80
            high = 0x9F if lead == 0xED else 0xBF
        elif 0xF0 <= lead < 0xF5:
            size = 4
            low = 0x90 if lead == 0xF0 else 0x80
            high = 0x8F if lead == 0xF4 else 0xBF
        else:
            return position
        if second < low or second > high:
            return position
        if size > 2 and not _continues(text, position + 2, length):
            return position
        if size > 3 and not _continues(text, position + 3, length):
            return position
        position += size
    return np.int64(-1)


@kernel("int64(int64, int64)")
def first_invalid_utf8(address, length):
    """Byte offset of the first sequence that is not UTF-8 (RFC 3629: no surrogates, no overlong form), or -1."""
    return _first_invalid(address, length)


@kernel("int64(int64, int64, int64, int64)")
def next_invalid_text(addresses, lengths, count, first):
    """The number of the first text from ``first`` on that is not UTF-8, or -1.

    ``addresses`` and ``lengths`` are those of int64[count], where texts are and their bytes.
    """
    address_of = array_at(addresses, count, np.int64)
    length_of = array_at(lengths, count, np.int64)
    for number in range(first, count):
        if _first_invalid(at(address_of, number), at(length_of, number)) >= 0:
            return np.int64(number)
    return np.int64(-1)
