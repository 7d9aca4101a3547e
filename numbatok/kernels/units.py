"""Before stage 4, for a model with options: the units of a pretoken, whose symbols are merged.

A *unit* is a character, or a byte that its vocabulary spells as a character of the byte alphabet, with the prefix and
suffix that its place asks for: see :class:`numbatok.vocabulary.Options`.
"""

import numpy as np

from numbatok.kernels.dtypes import (
    VIEW_ALPHABET,
    VIEW_FALLBACK,
    VIEW_FUSE_UNKNOWN,
    VIEW_PREFIX,
    VIEW_SUFFIX,
    VIEW_UNIT_LAST,
    VIEW_UNIT_LATER,
    VIEW_UNIT_LIMIT,
    VIEW_UNITS,
    VIEW_UNKNOWN,
)
from numbatok.kernels.intrinsics import at, field, put, table
from numbatok.kernels.jit import helper


@helper
def _character(source, position, length):
    """(code point, bytes) of the character at ``source[position]``, of at most ``length - position`` bytes."""
    lead = np.int64(at(source, position))
    if lead < 0xC0:
        return lead, np.int64(1)
    width = min(np.int64(2) + (lead >= 0xE0) + (lead >= 0xF0), length - position)
    point = lead & (0x7F >> width)
    for i in range(1, width):
        point = point << 6 | np.int64(at(source, position + i)) & 0x3F
    return point, width


@helper
def _put_fallback(fallback, byte, symbols, count):
    """Put the symbol of a byte's ``<0xXX>`` at ``symbols[count]``; whether it has one."""
    symbol = at(fallback, byte)
    if symbol != np.uint32(0):
        put(symbols, count, np.uint32(symbol - np.uint32(1)))
    return symbol != np.uint32(0)


@helper
def _fall_back(view, fallback, point, later, last, symbols, count):
    """Put the byte tokens of the unit's spelling, the character ``point`` with its prefix and suffix, to
    ``symbols[count:]``; return how many, or 0 where any of them is missing.
    """
    made = count
    if later:
        prefix = table(view, VIEW_PREFIX, np.uint8)
        for i in range(len(prefix)):
            if not _put_fallback(fallback, np.int64(at(prefix, i)), symbols, made):
                return np.int64(0)
            made += 1
    more = np.int64(point >= 0x80) + (point >= 0x800) + (point >= 0x10000)  # bytes after the first
    byte = point if more == 0 else point >> 6 * more | (0xFF00 >> more + 1 & 0xFF)
    if not _put_fallback(fallback, byte, symbols, made):
        return np.int64(0)
    made += 1
    for i in range(more - 1, -1, -1):
        if not _put_fallback(fallback, point >> 6 * i & 0x3F | 0x80, symbols, made):
            return np.int64(0)
        made += 1
    if last:
        suffix = table(view, VIEW_SUFFIX, np.uint8)
        for i in range(len(suffix)):
            if not _put_fallback(fallback, np.int64(at(suffix, i)), symbols, made):
                return np.int64(0)
            made += 1
    return np.int64(made - count)


@helper
def split_units(view, source, length, symbols, widths):
    """Put the symbols of the units of ``source[:length]``, a pretoken, to ``symbols``; return how many.

    ``widths`` is set to how many bytes of the text, as the model has it, ``tokenizers`` takes each for.

    A unit without a symbol becomes its byte tokens, else the unknown token, else nothing. As in ``tokenizers`` the
    unknown token waits until a unit with a symbol of its own comes, or another unknown that is not fused with it, or
    the end; byte tokens overtake it.
    """
    units = table(view, VIEW_UNITS, np.uint32)
    limit = field(view, VIEW_UNIT_LIMIT)
    part_of_later = field(view, VIEW_UNIT_LATER)
    part_of_last = field(view, VIEW_UNIT_LAST)
    alphabet = table(view, VIEW_ALPHABET, np.uint16)
    fallback = table(view, VIEW_FALLBACK, np.uint32)
    unknown = np.uint32(field(view, VIEW_UNKNOWN) - 1)
    has_unknown = field(view, VIEW_UNKNOWN) != 0
    fuse = field(view, VIEW_FUSE_UNKNOWN) != 0
    waiting = np.int64(0)  # bytes of unknown units
    count = np.int64(0)
    position = np.int64(0)
    while position < length:
        if len(alphabet) > 0:
            unit, width = np.int64(at(source, position)), np.int64(1)
        else:
            unit, width = _character(source, position, length)
        later = position > 0
        position += width
        last = position == length
        symbol = np.uint32(0)
        if unit < limit:
            symbol = at(units, unit + (part_of_later if later else 0) + (part_of_last if last else 0))
        if len(alphabet) > 0:
            width += np.int64(at(alphabet, unit) >= 0x80)
        if symbol != np.uint32(0):
            if waiting > 0:
                put(symbols, count, unknown)
                put(widths, count, np.uint32(waiting))
                count += 1
                waiting = np.int64(0)
            put(symbols, count, np.uint32(symbol - np.uint32(1)))
            put(widths, count, np.uint32(width))
            count += 1
            continue
        if len(fallback) > 0:
            point = np.int64(at(alphabet, unit)) if len(alphabet) > 0 else unit
            made = _fall_back(view, fallback, point, later, last, symbols, count)
            if made > 0:
                for i in range(count, count + made):
                    put(widths, i, np.uint32(1))
                count += made
                continue
        if has_unknown:
            if waiting > 0 and not fuse:
                put(symbols, count, unknown)
                put(widths, count, np.uint32(waiting))
                count += 1
                waiting = np.int64(0)
            waiting += width
    if waiting > 0:
        put(symbols, count, unknown)
        put(widths, count, np.uint32(waiting))
        count += 1
    return count
