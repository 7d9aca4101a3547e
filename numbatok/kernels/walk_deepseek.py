"""The walker of DeepSeek V3's three steps: see :mod:`numbatok.kernels.starts`."""

import numpy as np

from numbatok.kernels.dtypes import ONE, VIEW_GROUP, WORK_STARTS, ZERO
from numbatok.kernels.intrinsics import field, put, table
from numbatok.kernels.intrinsics_vector import ascii_letters, equal_to, in_range
from numbatok.kernels.jit import kernel
from numbatok.kernels.starts import (
    TOP,
    TWO,
    block_address,
    last_before,
    late_han,
    number_starts,
    set_bit,
    turns_of_lines,
    valid_bits,
    wide_classes,
)


@kernel("int64(int64, int64, int64, int64, int64, int64, int64)")
def walk_deepseek(view, work, text, length, base, stop, blocks):
    r"""Walk ``\p{N}{1,3}``, then ``[一-龥\u3040-ゟ゠-ヿ]+``, then words, each inside the pieces of the one before.

    The words are ``A[A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+``,
    with ``A`` for ASCII punctuation. The first two steps cut between numbers and all else, and between their script
    and all else: nothing looks or reaches over such a border. Inside,

    * letters (and marks) are drawn to white space before them on the same line, or to one of the characters that no
      alternative begins with (*rest*: controls, unassigned, private), of which others before it are a gap, a piece too;
    * ASCII letters are drawn to ASCII punctuation that stands alone; the piece ends with the ASCII letters;
    * punctuation (and symbols) is drawn to U+0020, and takes line ends after it;
    * white space is cut as in :func:`numbatok.kernels.walk_cl100k.walk_cl100k`, and its last character stays with it
      at a border.

    Every start is one that a fresh walk agrees with: no piece of a later step begins inside a group of numbers, the
    script's runs end where they end wherever a walk begins, and the words look at nothing before them.

    Parameters and result: see :mod:`numbatok.kernels.starts`. Classes: LETTER with marks, NUMBER, SPACE, PUNCTUATION
    with symbols, SCRIPT with one of the others.
    """
    starts = table(work, WORK_STARTS, np.uint64)
    group = field(view, VIEW_GROUP)

    letter_before = number_before = sign_before = rest_before = script_before = blank_before = flat_before = ZERO
    line_before = free_before = alone_before = joined_before = tail_before = ZERO
    wide_before = ZERO  # bytes after the first of white space, and of the rest, in the block before
    taken = np.int64(0)  # numbers in the group that goes on
    pending = np.int64(-1)  # a start, if the white space there goes on without a line end
    added = ONE  # the base

    for block in range(blocks):
        position = base + 64 * block
        bytes_ = block_address(work, text, length, position)
        valid = valid_bits(position, stop)
        latin = ascii_letters(bytes_) & valid
        letter = latin
        number = in_range(bytes_, 48, 10) & valid
        blank = equal_to(bytes_, 32) & valid
        newline = (equal_to(bytes_, 10) | equal_to(bytes_, 13)) & valid
        space = in_range(bytes_, 9, 5) & valid | blank
        high = in_range(bytes_, 128, 128) & valid
        mark = in_range(bytes_, 33, 94) & valid & ~(letter | number)  # ASCII punctuation
        sign = mark

        wide = inner = script = ZERO
        if high != ZERO:
            inner = in_range(bytes_, 0x80, 0x40)
            # Characters whose first bytes say all, as in `letter_leads`; E9 is not all of the script.
            pairs = in_range(bytes_, 0xD0, 2) & high
            han = (in_range(bytes_, 0xE5, 4) | late_han(bytes_)) & high
            hangul = in_range(bytes_, 0xEB, 2) & high
            han = (han | han << ONE | han << TWO) & valid
            whole = (pairs | pairs << ONE | hangul | hangul << ONE | hangul << TWO) & valid | han
            letter |= whole
            script = han
            high &= ~whole
            if high != ZERO:
                letters, numbers, spaces, signs, _, _, scripts = wide_classes(
                    view, text, base, position, stop, bytes_, high
                )
                letter |= letters
                number |= numbers
                space |= spaces
                sign |= signs
                script |= scripts
                wide = spaces & inner
        rest = valid & ~(letter | number | space | sign)

        # Borders of the first two steps: the byte before is of another side.
        joined = script << ONE | script_before
        border = (script ^ joined) | number << ONE | number_before
        flat = space & ~newline
        after_blank = (blank << ONE | blank_before) & ~border
        after_flat = flat << ONE | flat_before
        after_rest = rest << ONE | rest_before

        begins = sign & (border | ~(sign << ONE | sign_before)) & ~after_blank
        alone = begins & mark
        # ASCII letters after punctuation that stands alone: where they end, and other letters follow.
        drawn = latin & (alone << ONE | alone_before)
        reach = latin + (drawn | latin & joined_before)
        begins |= (reach | joined_before) & letter & ~latin & ~script
        joined_runs = latin & ~reach
        first = letter & ~(letter << ONE | letter_before)
        begins |= first & ~(drawn | after_flat | after_rest)
        begins |= rest & ~after_rest
        begins |= border & valid & ~number
        groups, taken = number_starts(number, number_before, inner, group, taken)
        begins |= groups

        # White space: see walk_cl100k.
        tail = newline & ~(newline + (newline & ((sign & ~script) << ONE | sign_before & ~script_before | tail_before)))
        line = newline & ~tail
        free = space & ~tail
        begins |= free & ~(free << ONE | free_before)
        turns, pending = turns_of_lines(starts, 64 * block, flat, newline, line, line_before, pending, ~newline)
        # The last characters of white space and of the rest, before what goes with them.
        after = (valid & ~space & ~number & after_flat | first & after_rest) & ~border
        wide |= rest & inner
        begins |= turns | last_before(starts, block, after, wide, wide_before) | added
        added = ZERO
        put(starts, block, begins & valid)

        letter_before = letter >> TOP
        number_before = number >> TOP
        sign_before = sign >> TOP
        rest_before = rest >> TOP
        script_before = script >> TOP
        blank_before = blank >> TOP
        flat_before = flat >> TOP
        line_before = line >> TOP
        free_before = free >> TOP
        alone_before = alone >> TOP
        joined_before = joined_runs >> TOP
        tail_before = tail >> TOP
        wide_before = wide
    if pending >= 0 and base + 64 * blocks >= stop:
        set_bit(starts, pending)
    return min(stop, base + 64 * blocks)
