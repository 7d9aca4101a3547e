"""The walker of cl100k's rule in all its spellings: see :mod:`numbatok.kernels.starts`."""

import numpy as np

from numbatok.kernels.dtypes import ONE, VIEW_GROUP, VIEW_OPTIONS, WHOLE_END, WORK_STARTS, ZERO
from numbatok.kernels.intrinsics import (
    ascii_letters,
    at,
    equal_to,
    field,
    in_range,
    leading_zeros,
    put,
    table,
    trailing_zeros,
)
from numbatok.kernels.jit import kernel
from numbatok.kernels.starts import (
    TOP,
    add_start,
    block_address,
    contraction_bytes,
    first_bytes_before,
    groups_of_three,
    letter_leads,
    settle_turns,
    valid_bits,
    wide_classes,
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
            whole = letter_leads(bytes_, high) & valid
            letter |= whole
            high &= ~whole
            if high != ZERO:
                letters, numbers, spaces, _, _, _, _ = wide_classes(view, text, base, position, stop, high)
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

        if number != ZERO:
            if group == 3:
                threes, taken = groups_of_three(number, inner, taken)
                begins |= threes
            elif group == 1:
                begins |= number & ~inner
            else:
                begins |= number & ~(number << ONE | number_before)
        else:
            taken = np.int64(0)

        # White space: what is left of it once line ends have gone with others; where that begins; where it goes on
        # after a line's end; its last character.
        tail = newline & ~(newline + (newline & (other << ONE | other_before | tail_before)))
        line = newline & ~tail
        free = space & ~tail
        begins |= free & ~(free << ONE | free_before)
        if pending >= 0:
            over = trailing_zeros(~flat)
            if over < np.uint64(64):
                if newline >> over & ONE == ZERO and (valid >> over & ONE != ZERO or not whole_end):
                    add_start(starts, pending)
                pending = np.int64(-1)
        turns = flat & (line << ONE | line_before)
        if turns != ZERO:
            if flat & (newline >> ONE | ONE << TOP) != ZERO:
                turns, undecided = settle_turns(turns, flat, newline, 64 * block)
                if undecided >= 0:
                    pending = undecided
            if whole_end and valid >> TOP == ZERO and (flat & ~(flat + turns)) & ~(valid >> ONE) != ZERO:
                turns ^= ONE << (TOP - leading_zeros(turns))  # of the run that ends with the text
            begins |= turns
        after = valid & ~space & after_flat
        last = after >> ONE
        last_before = (after & ONE) << TOP
        if wide | wide_before != ZERO:
            last, last_before = first_bytes_before(last, last_before, wide, wide_before)
        begins |= last | added
        if last_before != ZERO and block > 0:
            put(starts, block - 1, at(starts, block - 1) | last_before)

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
        add_start(starts, pending)
    return min(stop, base + 64 * blocks)
