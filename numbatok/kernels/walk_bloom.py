"""The walker of BLOOM's rule: see :mod:`numbatok.kernels.starts`."""

import numpy as np

from numbatok.kernels.dtypes import ONE, WORK_STARTS, ZERO
from numbatok.kernels.intrinsics import at, put, table
from numbatok.kernels.intrinsics_vector import equal_to, in_range
from numbatok.kernels.jit import kernel
from numbatok.kernels.starts import TOP, block_address, letter_leads, valid_bits, wide_classes


@kernel("int64(int64, int64, int64, int64, int64, int64, int64)")
def walk_bloom(view, work, text, length, base, stop, blocks):
    r"""Walk `` ?[^(\s|[.,!?…。，、।۔،])]+``: runs of all but white space, ``( | )`` and punctuation, and the gaps.

    A run begins at the U+0020 before it, if there is one; what is left between runs is one piece.

    Parameters and result: see :mod:`numbatok.kernels.starts`. Class: LETTER, for all that runs are made of.
    """
    starts = table(work, WORK_STARTS, np.uint64)
    run_before = gap_before = blank_before = ZERO
    added = ONE  # the base
    for block in range(blocks):
        position = base + 64 * block
        bytes_ = block_address(work, text, length, position)
        valid = valid_bits(position, stop)
        blank = equal_to(bytes_, 32) & valid
        gap = blank | in_range(bytes_, 9, 5) | in_range(bytes_, 40, 2) | equal_to(bytes_, 124)
        gap |= equal_to(bytes_, 46) | equal_to(bytes_, 44) | equal_to(bytes_, 33) | equal_to(bytes_, 63)
        high = in_range(bytes_, 128, 128) & valid
        run = valid & ~(gap | high)
        if high != ZERO:
            whole = letter_leads(bytes_, high) & valid
            run |= whole
            high &= ~whole
            if high != ZERO:
                letters, _, _, _, _, _, _ = wide_classes(view, text, base, position, stop, bytes_, high)
                run |= letters
        gap = valid & ~run
        begins = run & ~(run << ONE | run_before)
        drawn = begins & (blank << ONE | blank_before)
        begins ^= drawn
        begins |= gap & ~(gap << ONE | gap_before) | drawn >> ONE | added
        if drawn & ONE != ZERO and block > 0:
            put(starts, block - 1, at(starts, block - 1) | ONE << TOP)
        added = ZERO
        put(starts, block, begins)
        run_before = run >> TOP
        gap_before = gap >> TOP
        blank_before = blank >> TOP
    return min(stop, base + 64 * blocks)
