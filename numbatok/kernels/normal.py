"""Before stage 1: whether a text is normal already, read in place."""

import numpy as np

from numbatok.kernels.dtypes import CLASS_TABLE_SIZE, RESTLESS, ZERO
from numbatok.kernels.intrinsics import array_at, at, load_u64, trailing_zeros
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
