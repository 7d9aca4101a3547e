"""What kernels that read JSON share. Whatever is not well-formed and plain is ODD, and left to Python."""

import numpy as np

from numbatok.kernels.dtypes import U64, ZERO
from numbatok.kernels.intrinsics import at, put, trailing_zeros
from numbatok.kernels.intrinsics_vector import copy_64_bytes, range_mask
from numbatok.kernels.jit import helper

ODD = -1
STRING_SLACK = 160  # bytes of a buffer behind the strings that are read to it

QUOTE, BACKSLASH, COMMA, COLON = (ord(character) for character in '"\\,:')
OPEN_LIST, CLOSE_LIST, OPEN_OBJECT, CLOSE_OBJECT = (ord(character) for character in "[]{}")
_U = ord("u")

#: What the escape of each byte stands for; 0 for others, and for that of a character's number.
_ESCAPES = np.zeros(256, np.uint8)
for _escape, _byte in zip(b'"\\/bfnrt', b'"\\/\b\f\n\r\t', strict=True):
    _ESCAPES[_escape] = _byte


@helper
def skip_space(json, position, length):
    """Where the white space at ``position`` ends."""
    while position < length:
        byte = at(json, position)
        if byte != 0x20 and byte != 0x0A and byte != 0x0D and byte != 0x09:
            break
        position += 1
    return position


@helper
def _hex(json, position, length):
    """The value of four hexadecimal digits, or ODD."""
    if position + 4 > length:
        return np.int64(ODD)
    value = np.int64(0)
    for i in range(4):
        byte = np.int64(at(json, position + i))
        digit = byte - 0x30
        if digit < 0 or digit > 9:
            digit = (byte | 0x20) - 0x61 + 10
            if digit < 10 or digit > 15:
                return np.int64(ODD)
        value = value << 4 | digit
    return value


@helper
def _read_escape(json, position, length):
    """(character, where it ends) of the escape whose backslash is before ``position``.

    (ODD, ODD) for a lone surrogate, and for what is no escape.
    """
    odd = np.int64(ODD)
    if position >= length:
        return odd, odd
    escape = at(json, position)
    position += 1
    if escape != _U:
        byte = np.int64(at(_ESCAPES, escape))
        return (byte, position) if byte != 0 else (odd, odd)
    point = _hex(json, position, length)
    position += 4
    if 0xD800 <= point < 0xDC00 and position + 2 <= length:
        low = _hex(json, position + 2, length)
        if at(json, position) != BACKSLASH or at(json, position + 1) != _U or low < 0xDC00 or low > 0xDFFF:
            return odd, odd
        point = 0x10000 + (point - 0xD800 << 10) + (low - 0xDC00)
        position += 6
    if point < 0 or 0xD800 <= point < 0xE000:
        return odd, odd
    return point, position


@helper
def _put_character(buffer, used, point):
    """Write the UTF-8 of a character to ``buffer[used:]``; returns where it ends."""
    if point < 0x80:
        put(buffer, used, np.uint8(point))
        return used + 1
    more = 1 + (point >= 0x800) + (point >= 0x10000)
    put(buffer, used, np.uint8(point >> 6 * more | (0xFF00 >> more + 1 & 0xFF)))
    for i in range(1, more + 1):
        put(buffer, used + i, np.uint8(point >> 6 * (more - i) & 0x3F | 0x80))
    return used + more + 1


@helper
def read_string(json, position, length, buffer, used):
    """Write what the string says whose first quote is before ``position`` to ``buffer[used:]``.

    Returns (where it ends, the new ``used``), or (ODD, ODD) where no well-formed string ends before ``length``, or one
    with a lone surrogate. What escapes say takes fewer bytes than they do. ``json`` may be longer than ``length``, and
    is read there then; up to STRING_SLACK bytes of the buffer after the end are overwritten.
    """
    odd = np.int64(ODD)
    # Blocks of 64 bytes, copied from behind each escape on again; no escape ends more than 75 bytes after they begin.
    while position < length and position + 75 + 64 <= len(json):
        copy_64_bytes(buffer, used, json, position)
        special = range_mask(json, position, np.uint8(QUOTE), np.uint8(1), np.uint8(0))
        special |= range_mask(json, position, np.uint8(BACKSLASH), np.uint8(1), np.uint8(0))
        special |= range_mask(json, position, np.uint8(0), np.uint8(0x20), np.uint8(0))
        done = np.int64(0)
        while special != ZERO:
            place = np.int64(trailing_zeros(special))
            byte = at(json, position + place)
            used += place - done
            if byte == QUOTE and position + place < length:
                return position + place + 1, used
            if byte != BACKSLASH:
                return odd, odd
            byte = at(_ESCAPES, at(json, position + place + 1))
            done = place + 2
            if byte != 0:
                put(buffer, used, byte)
                used += 1
            else:
                point, end = _read_escape(json, position + place + 1, length)
                if point < 0:
                    return odd, odd
                used = _put_character(buffer, used, point)
                done = end - position
            copy_64_bytes(buffer, used, json, position + done)
            special = special & ~ZERO << U64(done) if done < 64 else ZERO
        step = max(done, np.int64(64))
        position += step
        used += step - done
    while position < length:
        byte = at(json, position)
        position += 1
        if byte == QUOTE:
            return position, used
        if byte < 0x20:
            return odd, odd
        if byte != BACKSLASH:
            put(buffer, used, byte)
            used += 1
            continue
        point, position = _read_escape(json, position, length)
        if point < 0:
            return odd, odd
        used = _put_character(buffer, used, point)
    return odd, odd
