"""Before stage 1: whether a text is normal already, read in place."""

import numpy as np

from numbatok.kernels.dtypes import CLASS_TABLE_SIZE, RESTLESS, ZERO
from numbatok.kernels.intrinsics import array_at, at, load_u64, put, trailing_zeros
from numbatok.kernels.intrinsics_vector import range_mask
from numbatok.kernels.jit import helper, kernel
from numbatok.kernels.starts import character_at

_HIGH_BITS = np.uint64(0x8080808080808080)


@helper
def _first_restless(text, length, restless, ascii_restless):
    """See :func:`first_restless`."""
    source = array_at(text, length, np.uint8)
    table = array_at(restless, CLASS_TABLE_SIZE, np.uint8)
    last = np.int64(0)  # combining class of the character before
    position = np.int64(0)
    while position < length:
        if ascii_restless == 0 and at(source, position) < 0x80:
            last = np.int64(0)
            while position + 64 <= length:
                high = range_mask(source, position, np.uint8(128), np.uint8(128), np.uint8(0))
                if high != ZERO:
                    position += np.int64(trailing_zeros(high))
                    break
                position += 64
            while position + 8 <= length:
                high = load_u64(source, position) & _HIGH_BITS
                if high != ZERO:
                    position += np.int64(trailing_zeros(high)) >> 3
                    break
                position += 8
            while position < length and at(source, position) < 0x80:
                position += 1
            if position >= length:
                break
        code_point, used = character_at(source, position, length)
        kind = np.int64(at(table, code_point))
        if kind != 0 and (kind == RESTLESS or kind < last):
            return position
        last = kind
        position += used
    return np.int64(-1)


@kernel("int64(int64, int64, int64, int64)")
def first_restless(text, length, restless, ascii_restless):
    """Byte offset of the first character that may change in normalizing, or -1 if the text is normal.

    Parameters
    ----------
    text, length : address of valid UTF-8 and its bytes; nothing outside is read. Should another thread change it
        meanwhile, the result means nothing, and nothing worse happens
    restless : address of a table, uint8[CLASS_TABLE_SIZE]: see :func:`numbatok.normalizers.restless`
    ascii_restless : whether the table has other values than 0 for ASCII, which is passed over in blocks where not

    Marks in canonical order are normal: this is the quick check of Unicode Standard Annex 15, section 9, with "maybe"
    taken for "no".
    """
    return _first_restless(text, length, restless, ascii_restless)


@helper
def _is_calm(source, table, position, stop):
    """(whether a text may be cut before the character at ``position``, its bytes)."""
    code_point, used = character_at(source, position, stop)
    return at(table, code_point) == 0, used


@kernel("int64(int64, int64, int64, int64, int64, int64)")
def list_restless(text, length, restless, ascii_restless, spans, capacity):
    """Write where the parts of a text that may change in normalizing begin and end to int64[2 * capacity].

    Each is a :func:`first_restless` character, and all around it up to where the text may be cut. Returns how many, or
    -1 where there is no room for all.
    """
    source = array_at(text, length, np.uint8)
    table = array_at(restless, CLASS_TABLE_SIZE, np.uint8)
    output = array_at(spans, 2 * capacity, np.int64)
    count = np.int64(0)
    done = np.int64(0)
    while done < length:
        found = _first_restless(text + done, length - done, restless, ascii_restless)
        if found < 0:
            break
        if count == capacity:
            return np.int64(-1)
        begin = end = done + found
        calm, used = _is_calm(source, table, begin, length)
        while begin > done and not calm:
            begin -= 1
            while begin > done and at(source, begin) & 0xC0 == 0x80:
                begin -= 1
            calm, _ = _is_calm(source, table, begin, length)
        calm = False
        while not calm:
            end += used
            if end >= length:
                break
            calm, used = _is_calm(source, table, end, length)
        put(output, 2 * count, begin)
        put(output, 2 * count + 1, min(end, length))
        count += 1
        done = min(end, length)
    return count


@kernel("int64(int64, int64, int64, int64, int64, int64)")
def next_restless(addresses, lengths, count, first, restless, ascii_restless):
    """Number of the first text from ``first`` on, of ``count``, that is not normal to :func:`first_restless`, or -1.

    ``addresses`` and ``lengths`` are the addresses of int64[count]: where each text is, and its bytes.
    """
    texts = array_at(addresses, count, np.int64)
    sizes = array_at(lengths, count, np.int64)
    for number in range(first, count):
        if _first_restless(at(texts, number), at(sizes, number), restless, ascii_restless) >= 0:
            return np.int64(number)
    return np.int64(-1)
