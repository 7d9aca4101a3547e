"""Reading a ``tokenizer.json``: where its merges stand, what they merge, and the bytes that its tokens spell.

Half a million merges as Python objects cost over a second, most of a load; these kernels read them where they are.
Whatever is not well-formed and plain they leave to Python, which says what is wrong with it.
"""

import numpy as np

from numbatok.kernels.dtypes import U64, VIEW_TOKEN_STARTS, VIEW_TOKENS
from numbatok.kernels.intrinsics import array_at, at, load_u64, put, table
from numbatok.kernels.jit import helper, kernel
from numbatok.kernels.merge import find_token, token_key

ODD = -1  # left to Python
STRANGE = np.uint16(0xFFFF)  # a character that stands for no byte

_QUOTE, _BACKSLASH, _SLASH, _COMMA, _COLON, _SPACE = (ord(character) for character in '"\\/,: ')
_OPEN_LIST, _CLOSE_LIST, _OPEN_OBJECT, _CLOSE_OBJECT = (ord(character) for character in "[]{}")
_B, _F, _N, _R, _T, _U = (ord(character) for character in "bfnrtu")
_MODEL = np.uint64(int.from_bytes(b'\0"model"', "little"))
_MERGES = np.uint64(int.from_bytes(b'"merges"', "little"))


@helper
def _skip_space(json, position, length):
    """Where the white space at ``position`` ends."""
    while position < length:
        byte = at(json, position)
        if byte != 0x20 and byte != 0x0A and byte != 0x0D and byte != 0x09:
            break
        position += 1
    return position


@helper
def _end_of_string(json, position, length):
    """Where the string whose first quote is at ``position`` ends, after its last quote; ``length`` if it does not."""
    position += 1
    while position < length and at(json, position) != _QUOTE:
        position += 2 if at(json, position) == _BACKSLASH else 1
    return min(position + 1, length)


@kernel("int64(int64, int64, int64)")
def find_merges(text, length, span):
    """Where the list ``merges`` of the object ``model`` stands in the JSON of ``length`` bytes at address ``text``.

    Sets int64[2] at ``span`` to its first byte and the one after its last, and returns 0; or ODD where there is no such
    list, or more than one.
    """
    json = array_at(text, length, np.uint8)
    found = array_at(span, 2, np.int64)
    depth = 0
    in_model = False
    begin = end = np.int64(-1)
    position = np.int64(0)
    while position < length:
        byte = at(json, position)
        if byte == _QUOTE:
            after = _end_of_string(json, position, length)
            if depth == 1:
                in_model = after - position == 7 and after < length and load_u64(json, position) << U64(8) == _MODEL
            elif depth == 2 and in_model and after - position == 8 and load_u64(json, position) == _MERGES:
                value = _skip_space(json, after, length)
                if value < length and at(json, value) == _COLON:
                    value = _skip_space(json, value + 1, length)
                    if begin >= 0 or value >= length or at(json, value) != _OPEN_LIST:
                        return np.int64(ODD)
                    begin = after = value
            position = after
            continue
        if byte in (_OPEN_LIST, _OPEN_OBJECT):
            depth += 1
        elif byte in (_CLOSE_LIST, _CLOSE_OBJECT):
            depth -= 1
            if depth == 2 and begin >= 0 and end < 0:
                end = position + 1
        position += 1
    if end < 0:
        return np.int64(ODD)
    put(found, 0, begin)
    put(found, 1, end)
    return np.int64(0)


@helper
def _hex(json, position, length):
    """The value of four hexadecimal digits, or -1."""
    if position + 4 > length:
        return np.int64(-1)
    value = np.int64(0)
    for i in range(4):
        byte = np.int64(at(json, position + i))
        digit = byte - 0x30
        if digit < 0 or digit > 9:
            digit = (byte | 0x20) - 0x61 + 10
            if digit < 10 or digit > 15:
                return np.int64(-1)
        value = value << 4 | digit
    return value


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
def _read_string(json, position, length, buffer, used):
    """Write what the JSON string at ``position`` says to ``buffer[used:]``; returns (where it ends, the new ``used``).

    (ODD, ODD) where no well-formed string is there, or one with a lone surrogate.
    """
    odd = np.int64(ODD)
    if position >= length or at(json, position) != _QUOTE:
        return odd, odd
    position += 1
    while position < length:
        byte = at(json, position)
        position += 1
        if byte == _QUOTE:
            return position, used
        if byte < 0x20:
            return odd, odd
        if byte != _BACKSLASH:
            put(buffer, used, byte)
            used += 1
            continue
        if position >= length:
            return odd, odd
        escape = at(json, position)
        position += 1
        if escape == _U:
            point = _hex(json, position, length)
            position += 4
            if 0xD800 <= point < 0xDC00 and position + 2 <= length:
                low = _hex(json, position + 2, length)
                if at(json, position) != _BACKSLASH or at(json, position + 1) != _U or low < 0xDC00:
                    return odd, odd
                if low > 0xDFFF:
                    return odd, odd
                point = 0x10000 + (point - 0xD800 << 10) + (low - 0xDC00)
                position += 6
            if point < 0 or 0xD800 <= point < 0xE000:
                return odd, odd
            used = _put_character(buffer, used, point)
            continue
        if escape in (_QUOTE, _BACKSLASH, _SLASH):
            byte = escape
        elif escape == _N:
            byte = np.uint8(0x0A)
        elif escape == _T:
            byte = np.uint8(0x09)
        elif escape == _R:
            byte = np.uint8(0x0D)
        elif escape == _B:
            byte = np.uint8(0x08)
        elif escape == _F:
            byte = np.uint8(0x0C)
        else:
            return odd, odd
        put(buffer, used, byte)
        used += 1
    return odd, odd


@helper
def _symbol(view, buffer, begin, end):
    """Symbol of the token ``buffer[begin:end]``, or -1."""
    if begin >= end:
        return np.int64(-1)
    low, high = token_key(buffer, begin, end - begin)
    return find_token(view, low, high, buffer, begin, end - begin)


@kernel("int64(int64, int64, int64, int64, int64, int64, int64)")
def resolve_merges(view, text, length, prefix, work, rows, capacity):
    """The symbols of a JSON list of merges, each ``"left right"`` or ``["left", "right"]``.

    Parameters
    ----------
    view : address of a view whose tokens, as the JSON spells them, are indexed
    text, length : address and bytes of the list, brackets included
    prefix : bytes that a merge leaves out of its right part
    work : address of uint8[length + 16]
    rows : address of uint32[capacity, 3], set to (left, right, made)
    capacity : at least a fifth of ``length``, as no merge takes fewer bytes

    Returns how many merges, or ODD where the list is not of this form or needs a token that is not there.
    """
    json = array_at(text, length, np.uint8)
    buffer = array_at(work, length + 16, np.uint8)
    found = array_at(rows, 3 * capacity, np.uint32)
    odd = np.int64(ODD)
    count = np.int64(0)
    position = _skip_space(json, np.int64(1), length)
    if position < length and at(json, position) == _CLOSE_LIST:
        return count if position + 1 == length else odd
    while position < length and count < capacity:
        if at(json, position) == _OPEN_LIST:
            position, cut = _read_string(json, _skip_space(json, position + 1, length), length, buffer, np.int64(0))
            if position < 0:
                return odd
            position = _skip_space(json, position, length)
            if position >= length or at(json, position) != _COMMA:
                return odd
            position, end = _read_string(json, _skip_space(json, position + 1, length), length, buffer, cut)
            if position < 0:
                return odd
            position = _skip_space(json, position, length)
            if position >= length or at(json, position) != _CLOSE_LIST:
                return odd
            position += 1
        else:
            position, end = _read_string(json, position, length, buffer, np.int64(0))
            if position < 0:
                return odd
            cut = np.int64(0)
            while cut < end and at(buffer, cut) != _SPACE:
                cut += 1
            end -= 1
            for i in range(cut, end):
                byte = at(buffer, i + 1)
                if byte == _SPACE:
                    return odd
                put(buffer, i, byte)
        left = _symbol(view, buffer, np.int64(0), cut)
        right = _symbol(view, buffer, cut, end)
        if left < 0 or right < 0 or end - cut < prefix:
            return odd
        if prefix > 0:
            end -= prefix
            for i in range(cut, end):
                put(buffer, i, at(buffer, i + prefix))
        made = _symbol(view, buffer, np.int64(0), end)
        if made < 0:
            return odd
        put(found, 3 * count, np.uint32(left))
        put(found, 3 * count + 1, np.uint32(right))
        put(found, 3 * count + 2, np.uint32(made))
        count += 1
        position = _skip_space(json, position, length)
        if position >= length:
            return odd
        if at(json, position) == _CLOSE_LIST:
            return count if position + 1 == length else odd
        if at(json, position) != _COMMA:
            return odd
        position = _skip_space(json, position + 1, length)
    return odd


@kernel("int64(int64, int64, int64, int64)")
def spell_out(view, byte_of, data, starts):
    """The bytes of a view's tokens, which are written in the byte alphabet, one after the other to ``data``.

    ``byte_of`` is the address of uint16[0x200]: the byte of each character, or STRANGE. A token with any other
    character keeps its UTF-8. ``data`` has room for the tokens as they are; ``starts`` is int64[tokens + 1]. Returns
    how many tokens have another character.
    """
    source = table(view, VIEW_TOKENS, np.uint8)
    edges = table(view, VIEW_TOKEN_STARTS, np.int64)
    bytes_ = array_at(byte_of, 0x200, np.uint16)
    target = array_at(data, len(source), np.uint8)
    begins = array_at(starts, len(edges), np.int64)
    used = np.int64(0)
    strange = np.int64(0)
    for token in range(len(edges) - 1):
        put(begins, token, used)
        begin, end = at(edges, token), at(edges, token + 1)
        position = begin
        out = used
        known = True
        while known and position < end:
            point = np.int64(at(source, position))
            if 0xC0 <= point < 0xC8 and position + 1 < end:
                position += 1
                point = (point & 0x07) << 6 | np.int64(at(source, position)) & 0x3F
            byte = at(bytes_, point)
            known = byte != STRANGE and at(source, position) < 0xC0  # it is not the first byte of another character
            put(target, out, np.uint8(byte))
            out += 1
            position += 1
        if not known:
            strange += 1
            out = used
            for i in range(begin, end):
                put(target, out, at(source, i))
                out += 1
        used = out
    put(begins, len(edges) - 1, used)
    return strange
