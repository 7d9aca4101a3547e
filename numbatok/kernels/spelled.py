"""Reading a ``tokenizer.json``: where its merges stand, what they merge, and the bytes that its tokens spell.

Half a million merges as Python objects cost over a second, most of a load; these kernels read them where they are.
Whatever is not well-formed and plain they leave to Python, which says what is wrong with it.
"""

import numpy as np

from numbatok.kernels.dtypes import U64, VIEW_TOKEN_STARTS, VIEW_TOKENS
from numbatok.kernels.intrinsics import array_at, at, load_u64, put, table
from numbatok.kernels.jit import helper, kernel
from numbatok.kernels.json_parts import (
    BACKSLASH,
    CLOSE_LIST,
    CLOSE_OBJECT,
    COLON,
    COMMA,
    ODD,
    OPEN_LIST,
    OPEN_OBJECT,
    QUOTE,
    STRING_SLACK,
    read_string,
    skip_space,
)
from numbatok.kernels.merge import find_token, token_key

STRANGE = np.uint16(0xFFFF)  # a character that stands for no byte

_SPACE = ord(" ")
_MODEL = np.uint64(int.from_bytes(b'\0"model"', "little"))
_MERGES = np.uint64(int.from_bytes(b'"merges"', "little"))


@helper
def _end_of_string(json, position, length):
    """Where the string whose first quote is at ``position`` ends, after its last quote; ``length`` if it does not."""
    position += 1
    while position < length and at(json, position) != QUOTE:
        position += 2 if at(json, position) == BACKSLASH else 1
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
        if byte == QUOTE:
            after = _end_of_string(json, position, length)
            if depth == 1:
                in_model = after - position == 7 and after < length and load_u64(json, position) << U64(8) == _MODEL
            elif depth == 2 and in_model and after - position == 8 and load_u64(json, position) == _MERGES:
                value = skip_space(json, after, length)
                if value < length and at(json, value) == COLON:
                    value = skip_space(json, value + 1, length)
                    if begin >= 0 or value >= length or at(json, value) != OPEN_LIST:
                        return np.int64(ODD)
                    begin = after = value
            position = after
            continue
        if byte in (OPEN_LIST, OPEN_OBJECT):
            depth += 1
        elif byte in (CLOSE_LIST, CLOSE_OBJECT):
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
def _read_string(json, position, length, buffer, used):
    """Write what the JSON string at ``position`` says to ``buffer[used:]``; returns (where it ends, the new ``used``).

    (ODD, ODD) where no well-formed string is there, or one with a lone surrogate.
    """
    if position >= length or at(json, position) != QUOTE:
        return np.int64(ODD), np.int64(ODD)
    return read_string(json, position + 1, length, buffer, used)


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
    work : address of uint8[length + STRING_SLACK]
    rows : address of uint32[capacity, 3], set to (left, right, made)
    capacity : at least a fifth of ``length``, as no merge takes fewer bytes

    Returns how many merges, or ODD where the list is not of this form or needs a token that is not there.
    """
    json = array_at(text, length, np.uint8)
    buffer = array_at(work, length + STRING_SLACK, np.uint8)
    found = array_at(rows, 3 * capacity, np.uint32)
    odd = np.int64(ODD)
    count = np.int64(0)
    position = skip_space(json, np.int64(1), length)
    if position < length and at(json, position) == CLOSE_LIST:
        return count if position + 1 == length else odd
    while position < length and count < capacity:
        if at(json, position) == OPEN_LIST:
            position, cut = _read_string(json, skip_space(json, position + 1, length), length, buffer, np.int64(0))
            if position < 0:
                return odd
            position = skip_space(json, position, length)
            if position >= length or at(json, position) != COMMA:
                return odd
            position, end = _read_string(json, skip_space(json, position + 1, length), length, buffer, cut)
            if position < 0:
                return odd
            position = skip_space(json, position, length)
            if position >= length or at(json, position) != CLOSE_LIST:
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
        position = skip_space(json, position, length)
        if position >= length:
            return odd
        if at(json, position) == CLOSE_LIST:
            return count if position + 1 == length else odd
        if at(json, position) != COMMA:
            return odd
        position = skip_space(json, position + 1, length)
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
