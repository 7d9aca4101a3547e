"""Rows of ids for models: spans of ids copied one after the other, or below each other with padding."""

import numpy as np

from numbatok.kernels.intrinsics import array_at, at, put
from numbatok.kernels.jit import kernel


@kernel("int64(int64, int64, int64, int64, int64)")
def join_spans(addresses, counts, spans, separator, output):
    """Copy spans of 32-bit elements one after the other; return how many elements that is.

    Parameters
    ----------
    addresses : address of int64[spans], where each span's elements are
    counts : address of int64[spans], how many elements each has
    separator : what is put after each span, or -1 for nothing
    output : address of uint32 with room for all, the separators too
    """
    begins = array_at(addresses, spans, np.int64)
    sizes = array_at(counts, spans, np.int64)
    used = np.int64(0)
    for span in range(spans):
        size = at(sizes, span)
        source = array_at(at(begins, span), size, np.uint32)
        target = array_at(output + 4 * used, size + 1, np.uint32)
        for i in range(size):
            put(target, i, at(source, i))
        used += size
        if separator >= 0:
            put(target, size, np.uint32(separator))
            used += 1
    return used


@kernel("int64(int64, int64, int64, int64, int64, int64, int64, int64)")
def pad_rows(addresses, counts, rows, width, pad, left, output, mask):
    """Copy spans of 32-bit elements to the rows of a matrix, and fill each row up.

    Parameters
    ----------
    addresses : address of int64[rows], where each row's elements are
    counts : address of int64[rows], how many of them each row takes, at most ``width``
    pad : what the rest of a row is filled with
    left : 1 where that goes before the elements, 0 where after
    output : address of uint32[rows, width]
    mask : address of uint8[rows, width], set to 1 where an element is and to 0 where the filling is

    Returns 0.
    """
    begins = array_at(addresses, rows, np.int64)
    sizes = array_at(counts, rows, np.int64)
    filling = np.uint32(pad)
    for row in range(rows):
        size = at(sizes, row)
        source = array_at(at(begins, row), size, np.uint32)
        first = (width - size) * left
        target = array_at(output + 4 * (row * width + first), size, np.uint32)
        for i in range(size):
            put(target, i, at(source, i))
        taken = array_at(mask + row * width + first, size, np.uint8)
        for i in range(size):
            put(taken, i, np.uint8(1))
        start = np.int64(0) if left != 0 else size
        rest = array_at(output + 4 * (row * width + start), width - size, np.uint32)
        for i in range(width - size):
            put(rest, i, filling)
        free = array_at(mask + row * width + start, width - size, np.uint8)
        for i in range(width - size):
            put(free, i, np.uint8(0))
    return np.int64(0)
