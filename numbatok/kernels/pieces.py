"""Where pretokens begin, as a list, for those who look at single ones."""

import numpy as np

from numbatok.kernels.dtypes import (
    NEED_BITMAP,
    NEED_OUTPUT,
    ONE,
    VIEW_DROPS,
    VIEW_WALKER,
    WORK_DROPPED,
    WORK_NEEDED,
    WORK_STARTS,
    WORK_VIEW,
    ZERO,
)
from numbatok.kernels.encode import is_set
from numbatok.kernels.intrinsics import array_at, at, call_kernel, field, put, set_field, table, trailing_zeros
from numbatok.kernels.jit import kernel
from numbatok.kernels.starts import keep_tail


@kernel("int64(int64, int64, int64, int64, int64, int64, int64)")
def list_starts(work, text, length, base, blocks, output, capacity):
    """Write the byte offsets where pretokens of a text begin, in one walk of ``blocks`` blocks from ``base`` on.

    Parameters
    ----------
    work : address of a scratch record
    text, length : address of the text, without added tokens, and its bytes
    base : where a pretoken begins
    blocks : how many blocks of 64 bytes to walk; where they do not reach the text's end, only starts are written that
        stay, however the text goes on after it
    output : address of int64[capacity]; a start ``s`` of a piece that the split rule removes is written as ``-1 - s``

    Returns how many, or a status: NEED_OUTPUT, or NEED_BITMAP or NEED_MARKS with ``WORK_NEEDED`` set.
    """
    starts = table(work, WORK_STARTS, np.uint64)
    dropped = table(work, WORK_DROPPED, np.uint64)
    view = field(work, WORK_VIEW)
    drops = field(view, VIEW_DROPS) != 0
    places = array_at(output, capacity, np.int64)
    if blocks >= len(starts):
        set_field(work, WORK_NEEDED, blocks + 1)
        return np.int64(NEED_BITMAP)
    keep_tail(work, text, length)
    decided = call_kernel(field(view, VIEW_WALKER), (view, work, text, length, base, length, blocks))
    if decided < 0:
        return decided
    used = np.int64(0)
    for block in range(blocks):
        bits = at(starts, block)
        while bits != ZERO:
            bit = 64 * block + np.int64(trailing_zeros(bits))
            bits &= bits - ONE
            if base + bit >= decided:
                return used
            if used >= capacity:
                return np.int64(NEED_OUTPUT)
            start = base + bit
            put(places, used, -1 - start if drops and is_set(dropped, bit) else start)
            used += 1
    return used
