"""Walkers of GPT-2's rule inside the parts that a step before has cut: see :mod:`numbatok.kernels.starts`."""

import numpy as np

from numbatok.kernels.dtypes import CUT_DIGITS, ONE, VIEW_OPTIONS, WORK_STARTS, ZERO
from numbatok.kernels.intrinsics import array_at, at, field, put, table, trailing_zeros
from numbatok.kernels.intrinsics_vector import ascii_letters, equal_to, in_range
from numbatok.kernels.jit import helper, kernel
from numbatok.kernels.starts import (
    TOP,
    block_address,
    last_before,
    letter_leads,
    number_starts,
    valid_bits,
    whole_start,
    wide_classes,
)
from numbatok.kernels.walk_r50k import cut_contractions


@helper
def _is_ten(source, position, stop):
    """Whether ``source[position]`` is one of the digits 0 to 9 before ``stop``."""
    return position < stop and 48 <= at(source, position) <= 57


@helper
def _join_short_runs(text, position, stop, begins, mixed):
    """Starts in runs of digits that begin with other bytes than 0 to 9: less than three of these make no group.

    ``mixed`` has the first 0 to 9 of such runs.
    """
    source = array_at(text, stop, np.uint8)
    while mixed != ZERO:
        bit = mixed & (ZERO - mixed)
        mixed ^= bit
        place = position + np.int64(trailing_zeros(bit))
        if not (_is_ten(source, place + 1, stop) and _is_ten(source, place + 2, stop)):
            begins &= ~bit
    return begins


@kernel("int64(int64, int64, int64, int64, int64, int64, int64)")
def walk_parts(view, work, text, length, base, stop, blocks):
    r"""Walk GPT-2's rule (:func:`numbatok.kernels.walk_r50k.walk_r50k`) between what a step before cuts out.

    With CUT_DIGITS each of DIGIT is a piece (StarCoder, Refact, Command-R). With CUT_PUNCTUATION (Falcon) runs of
    PUNCTUATION are; the pieces that GPT-2's rule leaves are cut again before and after runs of digits, and these by
    ``[0-9][0-9][0-9]``. What has been cut out is the end of the text for white space before it.

    Falcon's steps after GPT-2's rule see bytes, each as a character of the byte alphabet: digits are 0 to 9 and the
    bytes that stand there for two, three, one, a quarter, a half and three quarters, wherever they are in a character.

    A fresh walk from any start at a character's first byte agrees: what is cut out first is cut alike, and so is what
    lies between; a run of digits that begins in the middle begins after a group of three, from which groups are counted
    again. With CUT_PUNCTUATION the result is such a start.

    Parameters and result: see :mod:`numbatok.kernels.starts`. Classes: LETTER, NUMBER, SPACE, and besides, DIGIT or
    PUNCTUATION.
    """
    starts = table(work, WORK_STARTS, np.uint64)
    cut_digits = field(view, VIEW_OPTIONS) & CUT_DIGITS != 0

    letter_before = number_before = space_before = other_before = blank_before = cut_before = ZERO
    digit_before = ten_before = ZERO
    wide_before = ZERO  # bytes after the first of white space in the block before
    taken = np.int64(0)  # digits in the group that goes on
    spoilt = ZERO
    added = ONE  # the base

    for block in range(blocks):
        position = base + 64 * block
        bytes_ = block_address(work, text, length, position)
        valid = valid_bits(position, stop)
        letter = ascii_letters(bytes_) & valid
        ten = in_range(bytes_, 48, 10) & valid
        blank = equal_to(bytes_, 32) & valid
        space = in_range(bytes_, 9, 5) & valid | blank
        apostrophe = equal_to(bytes_, 39)
        high = in_range(bytes_, 128, 128) & valid
        number = digit = ten
        cut = in_range(bytes_, 33, 94) & valid & ~(letter | ten)

        wide = inner = ZERO
        if high != ZERO:
            inner = in_range(bytes_, 0x80, 0x40)
            whole = letter_leads(bytes_, high) & valid
            letter |= whole
            high &= ~whole
            if high != ZERO:
                letters, numbers, spaces, signs, digits, _, _ = wide_classes(
                    view, text, base, position, stop, bytes_, high
                )
                letter |= letters
                number |= numbers
                space |= spaces
                cut |= signs
                if cut_digits:
                    digit |= digits
                wide = spaces & inner
            if not cut_digits:
                digit |= (in_range(bytes_, 0xB2, 2) | equal_to(bytes_, 0xB9) | in_range(bytes_, 0xBC, 3)) & valid
        if cut_digits:
            cut = digit
        letter &= ~cut
        number &= ~cut
        space &= ~cut
        blank &= ~cut

        other = valid & ~(letter | number | space | cut)
        changes = (
            (letter & ~(letter << ONE | letter_before))
            | (number & ~(number << ONE | number_before))
            | (space & ~(space << ONE | space_before))
            | (other & ~(other << ONE | other_before))
        )
        after_space = changes & ~space & (space << ONE | space_before)
        begins = changes & ~(after_space & (blank << ONE | blank_before))
        begins |= last_before(starts, block, after_space, wide, wide_before)
        if cut_digits:
            begins |= cut & ~inner
        else:
            apostrophe &= ~cut
            begins |= cut & ~(cut << ONE | cut_before)
            begins |= valid & (digit ^ (digit << ONE | digit_before))
            threes, taken = number_starts(ten, ten_before, ZERO, 3, taken)
            begins |= threes
            others = digit & ~ten
            mixed = ten & (others << ONE | (digit_before & ~ten_before)) & (number << ONE | number_before)
            if mixed != ZERO:  # as in "²12"; a letter before is no part of the run
                begins = _join_short_runs(text, position, stop, begins, mixed)
        begins = (begins & ~spoilt) | added
        begins, spoilt, added = cut_contractions(text, position, stop, begins, apostrophe & begins)
        put(starts, block, begins & valid)

        letter_before = letter >> TOP
        number_before = number >> TOP
        space_before = space >> TOP
        other_before = other >> TOP
        blank_before = blank >> TOP
        cut_before = cut >> TOP
        digit_before = digit >> TOP
        ten_before = ten >> TOP
        wide_before = wide
    if not cut_digits and base + 64 * blocks < stop:
        return whole_start(text, length, starts, base, base + 64 * blocks - 1)
    return min(stop, base + 64 * blocks)
