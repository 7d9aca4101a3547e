"""The walker of cl100k's rule in all its spellings: see :mod:`numbatok.kernels.starts`."""

import numpy as np

from numbatok.kernels.dtypes import ALL_ONES, ONE, VIEW_GROUP, VIEW_OPTIONS, WHOLE_END, WORK_STARTS, ZERO
from numbatok.kernels.intrinsics import field, leading_zeros, put, table, trailing_zeros
from numbatok.kernels.intrinsics_vector import ascii_letters, equal_to, in_range
from numbatok.kernels.jit import kernel
from numbatok.kernels.starts import (
    TOP,
    block_address,
    contraction_bytes,
    last_before,
    letters_numbers_spaces,
    number_starts,
    set_bit,
    turns_of_lines,
    valid_bits,
)


@kernel("int64(int64, int64, int64, int64, int64, int64, int64)")
def walk_cl100k(view, work, text, length, base, stop, blocks):
    r"""Walk ``C|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+``.

    ``C`` is ``(?i:'s|'t|'re|'ve|'m|'ll|'d)``. VIEW_GROUP is 3, 1 for ``\p{N}``, or 0 for ``\p{N}+``; with marks in the
    class table as letters, they go with letters. Option: WHOLE_END.

    A run of letters begins a pretoken unless it is drawn to the character before: white space on the same line, which
    a scan always reaches alone, or the one and only character of a run of others that no U+0020 draws to itself
    (``fresh`` here). Such an apostrophe may also be a contraction, after which a pretoken begins. Line ends go with
    others before them. Of white space that is left, all up to the last line end is a pretoken; of the rest, the last
    character is one of its own, or with what follows, where something follows.

    Parameters and result: see :mod:`numbatok.kernels.starts`. Classes: LETTER, NUMBER, SPACE.
    """
    starts = table(work, WORK_STARTS, np.uint64)
    group = field(view, VIEW_GROUP)
    whole_end = field(view, VIEW_OPTIONS) & WHOLE_END != 0

    letter_before = number_before = other_before = blank_before = flat_before = line_before = free_before = ZERO
    fresh_before = tail_before = ZERO
    wide_before = ZERO  # bytes after the first of white space in the block before
    taken = np.int64(0)  # numbers in the group that goes on
    pending = np.int64(-1)  # a start, if the white space there goes on without a line end
    added = ONE  # the base, then what contractions add

    for block in range(blocks):
        position = base + 64 * block
        bytes_ = block_address(work, text, length, position)
        valid = valid_bits(position, stop)
        letter = ascii_letters(bytes_) & valid
        number = in_range(bytes_, 48, 10) & valid
        blank = equal_to(bytes_, 32) & valid
        newline = (equal_to(bytes_, 10) | equal_to(bytes_, 13)) & valid
        space = in_range(bytes_, 9, 5) & valid | blank
        apostrophe = equal_to(bytes_, 39)
        high = in_range(bytes_, 128, 128) & valid

        wide = inner = ZERO
        if high != ZERO:
            inner = in_range(bytes_, 0x80, 0x40)
            letters, numbers, spaces = letters_numbers_spaces(view, text, base, position, stop, bytes_, high, valid)
            letter |= letters
            number |= numbers
            space |= spaces
            wide = spaces & inner

        other = valid & ~(letter | number | space)
        flat = space & ~newline
        after_blank = blank << ONE | blank_before
        after_flat = flat << ONE | flat_before
        begins = other & ~(other << ONE | other_before) & ~after_blank
        fresh = begins
        if inner & other != ZERO:
            for _ in range(3):
                fresh |= (fresh << ONE | fresh_before) & inner & other
        begins |= letter & ~(letter << ONE | letter_before | after_flat | fresh << ONE | fresh_before)

        groups, taken = number_starts(number, number_before, inner, group, taken)
        begins |= groups

        # White space: what is left of it once line ends have gone with others; where that begins; where it goes on
        # after a line's end; its last character.
        tail = newline & ~(newline + (newline & (other << ONE | other_before | tail_before)))
        line = newline & ~tail
        free = space & ~tail
        begins |= free & ~(free << ONE | free_before)
        followers = ~newline & (valid if whole_end else ALL_ONES)
        turns, pending = turns_of_lines(starts, 64 * block, flat, newline, line, line_before, pending, followers)
        if whole_end and turns != ZERO and valid >> TOP == ZERO and (flat & ~(flat + turns)) & ~(valid >> ONE) != ZERO:
            turns ^= ONE << (TOP - leading_zeros(turns))  # of the run that ends with the text
        begins |= turns | last_before(starts, block, valid & ~space & after_flat, wide, wide_before) | added

        added = ZERO
        apostrophe &= fresh  # a start already, if it is no contraction
        while apostrophe != ZERO:
            bit = np.int64(trailing_zeros(apostrophe))
            apostrophe &= apostrophe - ONE
            end = bit + contraction_bytes(text, position + bit, stop)
            if end < 64:
                begins |= ONE << np.uint64(end)
            else:
                added |= ONE << np.uint64(end - 64)
        put(starts, block, begins & valid)

        letter_before = letter >> TOP
        number_before = number >> TOP
        other_before = other >> TOP
        blank_before = blank >> TOP
        flat_before = flat >> TOP
        line_before = line >> TOP
        free_before = free >> TOP
        fresh_before = fresh >> TOP
        tail_before = tail >> TOP
        wide_before = wide
    if pending >= 0 and base + 64 * blocks >= stop and not whole_end:
        set_bit(starts, pending)
    return min(stop, base + 64 * blocks)
