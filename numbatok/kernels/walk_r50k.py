"""The walker of GPT-2's rule: see :mod:`numbatok.kernels.starts`."""

import numpy as np

from numbatok.kernels.dtypes import ONE, WORK_STARTS, ZERO
from numbatok.kernels.intrinsics import array_at, at, put, table, trailing_zeros
from numbatok.kernels.intrinsics_vector import ascii_letters, equal_to, in_range
from numbatok.kernels.jit import helper, kernel
from numbatok.kernels.starts import (
    TOP,
    block_address,
    last_before,
    letters_numbers_spaces,
    valid_bits,
)


@helper
def contraction_bytes(text, position, stop):
    """Bytes of the contraction at the apostrophe ``text[position]``: 2 ('s 'd 'm 't), 3 ('ll 've 're) or 0."""
    source = array_at(text, stop, np.uint8)
    room = stop - position
    if room < 2:
        return 0
    first = at(source, position + 1)
    if first == 115 or first == 100 or first == 109 or first == 116:
        return 2
    if room < 3:
        return 0
    second = at(source, position + 2)
    if first == 108 and second == 108:
        return 3
    if (first == 118 or first == 114) and second == 101:
        return 3
    return 0


@helper
def cut_contractions(text, position, stop, begins, apostrophe):
    """(starts, spoilt, added): the starts of a block with the contractions at some of its apostrophes cut out.

    The starts to take away from the next block, and those to add to it, are ``spoilt`` and ``added``.
    """
    spoilt = added = ZERO
    while apostrophe != ZERO:
        bit = np.int64(trailing_zeros(apostrophe))
        apostrophe &= apostrophe - ONE
        size = contraction_bytes(text, position + bit, stop)
        if size != 0:
            if bit < 63:
                begins &= ~(ONE << np.uint64(bit + 1))
            else:
                spoilt = ONE
            end = bit + size
            if end < 64:
                begins |= ONE << np.uint64(end)
            else:
                added = ONE << np.uint64(end - 64)
    return begins, spoilt, added


@kernel("int64(int64, int64, int64, int64, int64, int64, int64)")
def walk_r50k(view, work, text, length, base, stop, blocks):
    r"""Walk GPT-2's rule: ``'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+``.

    Each byte has one class (letter, number, white space, other), a character's bytes all its class. A pretoken begins
    where the class changes, except that a U+0020 is drawn to what follows it: so it begins at the last character of
    white space before anything else, and where that was a U+0020, not at the character after it. A contraction begins
    at an apostrophe where a pretoken begins, and ends it early.

    Parameters and result: see :mod:`numbatok.kernels.starts`. Classes: LETTER, NUMBER, SPACE.
    """
    starts = table(work, WORK_STARTS, np.uint64)

    # What the block before left: whether its last byte was of the class, and starts to take away and to add because of
    # a contraction.
    letter_before = number_before = space_before = other_before = blank_before = ZERO
    wide_before = ZERO  # bytes after the first of white space (U+00A0, U+3000, ...) in the block before
    spoilt = ZERO
    added = ONE  # the base

    for block in range(blocks):
        position = base + 64 * block
        bytes_ = block_address(work, text, length, position)
        valid = valid_bits(position, stop)
        letter = ascii_letters(bytes_) & valid
        number = in_range(bytes_, 48, 10) & valid
        blank = equal_to(bytes_, 32) & valid
        space = in_range(bytes_, 9, 5) & valid | blank
        apostrophe = equal_to(bytes_, 39)
        high = in_range(bytes_, 128, 128) & valid

        wide = ZERO
        if high != ZERO:
            letters, numbers, spaces = letters_numbers_spaces(view, text, base, position, stop, bytes_, high, valid)
            letter |= letters
            number |= numbers
            space |= spaces
            wide = spaces & in_range(bytes_, 0x80, 0x40)

        other = valid & ~(letter | number | space)
        changes = (
            (letter & ~(letter << ONE | letter_before))
            | (number & ~(number << ONE | number_before))
            | (space & ~(space << ONE | space_before))
            | (other & ~(other << ONE | other_before))
        )
        after_space = changes & ~space & (space << ONE | space_before)
        begins = changes & ~(after_space & (blank << ONE | blank_before))
        begins |= last_before(starts, block, after_space, wide, wide_before)
        begins = (begins & ~spoilt) | added
        begins, spoilt, added = cut_contractions(text, position, stop, begins, apostrophe & begins)
        put(starts, block, begins & valid)

        letter_before = letter >> TOP
        number_before = number >> TOP
        space_before = space >> TOP
        other_before = other >> TOP
        blank_before = blank >> TOP
        wide_before = wide
    return min(stop, base + 64 * blocks)
