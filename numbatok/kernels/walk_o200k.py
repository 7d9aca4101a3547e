"""The walker of o200k's rule and its family: see :mod:`numbatok.kernels.starts`."""

import numpy as np

from numbatok.kernels.dtypes import ONE, SCRIPT_FIRST, SLASHES, SUFFIX, VIEW_GROUP, VIEW_OPTIONS, WORK_STARTS, ZERO
from numbatok.kernels.intrinsics import field, put, table, trailing_zeros
from numbatok.kernels.intrinsics_vector import ascii_letters, equal_to, in_range
from numbatok.kernels.jit import helper, kernel
from numbatok.kernels.starts import (
    TOP,
    TWO,
    block_address,
    contraction_bytes,
    last_before,
    late_han,
    number_starts,
    set_bit,
    turns_of_lines,
    valid_bits,
    wide_classes,
)

# What a character is to the next one: nothing, one of the script, part of a word, the first or second number of a
# group, the only one of its others, one of several, one of the line ends and slashes after others. In this order, so
# that one comparison tells two or three.
_APART, _SCRIPT, _WORD, _FIRST, _SECOND, _ALONE, _TOGETHER, _ENDED = range(8)


@helper
def _one_by_one(
    text, position, stop, options, state, other, mark, newline, slash, apostrophe, script, number, letter, blanks, inner
):
    r"""Sort out, character by character, a block where masks do not tell what goes with what.

    That is where marks follow others, slashes follow line ends, or the script has characters that are no letters.
    ``state`` is what the last character of the block before is to this one, ``blanks`` is set after each U+0020.
    Returns (others with what goes with them, those of them that a word may draw, line ends and slashes that go with
    others, marks that are words, numbers, characters of the script's runs, contractions that go with a word, and those
    bits of the next block that belong to a contraction).
    """
    together = fresh = ended = words = runs = suffixes = over = ZERO
    kept_numbers = ZERO
    members = other | mark | newline | script | number
    bits = members & ~inner
    end = np.int64(0)
    lead = members & inner & ~((members & inner) + (members & inner & ONE))
    if lead != ZERO:  # the rest of a character that began in the block before
        end = np.int64(trailing_zeros(~lead))
        if _ALONE <= state <= _TOGETHER:
            together |= lead
            if state == _ALONE:
                fresh |= lead
        elif state == _SCRIPT:
            runs |= lead
        elif mark & lead != ZERO:
            words |= lead
        else:
            kept_numbers |= lead & number
    while bits != ZERO:
        bit = bits & (ZERO - bits)
        place = np.int64(trailing_zeros(bit))
        if place != end:
            state = _WORD if place > 0 and letter & bit >> ONE != ZERO else _APART
        run = bit
        for _ in range(3):
            run |= run << ONE & inner
        bits &= ~run
        end = place + np.int64(trailing_zeros(~(run >> np.uint64(place))))
        if script & bit != ZERO:
            if number & bit != ZERO and (_FIRST <= state <= _SECOND):
                kept_numbers |= run
                state = _SECOND if state == _FIRST else _APART
            elif (
                letter & bit == ZERO and number & bit == ZERO and (_ALONE <= state <= _TOGETHER or blanks & bit != ZERO)
            ):
                together |= run
                state = _TOGETHER
            else:
                runs |= run
                state = _SCRIPT
        elif number & bit != ZERO:
            kept_numbers |= run
            state = _SECOND if state == _FIRST else _APART if state == _SECOND else _FIRST
        elif newline & bit != ZERO:
            if state >= _ALONE:
                ended |= run
                state = _ENDED
            else:
                state = _APART
        elif mark & bit != ZERO:
            if state == _TOGETHER:
                together |= run
            else:
                words |= run
                state = _WORD
        elif state == _ENDED and slash & bit != ZERO and options & SLASHES != 0:
            ended |= run
        elif _ALONE <= state <= _TOGETHER:
            together |= run
            state = _TOGETHER
        else:
            size = np.int64(0)
            if state == _WORD and apostrophe & bit != ZERO and options & SUFFIX != 0:
                size = np.int64(contraction_bytes(text, position + place, stop))
            if size != 0:
                run = ((ONE << np.uint64(size)) - ONE) << np.uint64(place)
                suffixes |= run
                if place + size > 64:
                    over = (ONE << np.uint64(place + size - 64)) - ONE
                letter &= ~run
                bits &= ~run
                end = place + size
                state = _APART
            else:
                together |= run
                if blanks & bit != ZERO:
                    state = _TOGETHER
                else:
                    fresh |= run
                    state = _ALONE
    return together, fresh, ended, words, kept_numbers, runs, suffixes, over


@kernel("int64(int64, int64, int64, int64, int64, int64, int64)")
def walk_o200k(view, work, text, length, base, stop, blocks):
    r"""Walk ``P?U*L+C?|P?U+L*C?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+``.

    ``P`` is ``[^\r\n\p{L}\p{N}]``, ``U`` is ``[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]``, ``L`` is
    ``[\p{Ll}\p{Lm}\p{Lo}\p{M}]`` and ``C`` is ``(?i:'s|'t|'re|'ve|'m|'ll|'d)``. VIEW_GROUP as in
    :func:`numbatok.kernels.walk_cl100k.walk_cl100k`. Options: SUFFIX, without which there is no ``C``; SLASHES, without
    which others end in ``[\r\n]*``; and SCRIPT_FIRST, with which (and groups of three) ``\p{Han}+`` comes before all,
    and U and L are without Han.

    White space, numbers, and what draws a word are as in that walker; the words are runs of letters and marks, which
    end early:

    * at a capital (Lu, Lt) after a small letter (Ll), or after letters of no case that follow a small one;
    * after letters of no case that follow none, at capitals up to the word's end: ``U*`` gives these back for the sake
      of ``L+``, which takes the last letter that can be small.

    A mark that a scan meets is part of a word, but it goes with others that are more than the one that the word draws.

    Parameters and result: see :mod:`numbatok.kernels.starts`. Classes: LETTER, NUMBER, SPACE, MARK, UPPER, LOWER,
    SCRIPT (with LETTER or NUMBER or alone, never with MARK).
    """
    starts = table(work, WORK_STARTS, np.uint64)
    group = field(view, VIEW_GROUP)
    options = field(view, VIEW_OPTIONS)
    script_first = options & SCRIPT_FIRST != 0

    word_before = number_before = blank_before = flat_before = line_before = free_before = ZERO
    together_before = fresh_before = tail_before = runs_before = small_before = caseless_before = ZERO
    wide_before = ZERO  # bytes after the first of white space in the block before
    over = ZERO  # bytes of a contraction that began in the block before
    taken = np.int64(0)  # numbers in the group that goes on
    pending = np.int64(-1)  # a start, if the white space there goes on without a line end
    capitals = np.int64(-1)  # a start, if the capitals there end the word
    added = ONE  # the base

    for block in range(blocks):
        position = base + 64 * block
        bytes_ = block_address(work, text, length, position)
        valid = valid_bits(position, stop)
        inside = valid & ~over
        letter = ascii_letters(bytes_) & inside
        upper = in_range(bytes_, 65, 26) & inside
        lower = letter & ~upper
        number = in_range(bytes_, 48, 10) & inside
        blank = equal_to(bytes_, 32) & inside
        newline = (equal_to(bytes_, 10) | equal_to(bytes_, 13)) & inside
        space = in_range(bytes_, 9, 5) & inside | blank
        slash = equal_to(bytes_, 47) & inside
        apostrophe = equal_to(bytes_, 39) & inside
        high = in_range(bytes_, 128, 128) & inside

        wide = inner = mark = script = ZERO
        if high != ZERO:
            inner = in_range(bytes_, 0x80, 0x40)
            # Characters whose first bytes say all, as in `letter_leads`.
            d0 = equal_to(bytes_, 0xD0) & high & ~(ONE << TOP)
            d1 = equal_to(bytes_, 0xD1) & high & in_range(bytes_, 0x80, 0x20) >> ONE
            capital = d0 & in_range(bytes_, 0x80, 0x30) >> ONE
            small = d0 & ~capital | d1
            capital |= capital << ONE
            small |= small << ONE
            han = (in_range(bytes_, 0xE5, 5) | late_han(bytes_)) & high
            hangul = in_range(bytes_, 0xEB, 2) & high
            han |= han << ONE | han << TWO
            hangul |= hangul << ONE | hangul << TWO
            whole = (capital | small | han | hangul) & valid
            letter |= whole
            upper |= capital & valid
            lower |= small & valid
            if script_first:
                script = han & valid
            high &= ~whole
            if high != ZERO:
                letters, numbers, spaces, mark, capital, small, han = wide_classes(
                    view, text, base, position, stop, bytes_, high
                )
                letter |= letters
                number |= numbers
                space |= spaces
                upper |= capital
                lower |= small
                script |= han
                wide = spaces & inner

        flat = space & ~newline
        after_blank = blank << ONE | blank_before
        other = inside & ~(letter | number | space | mark | script)
        word = letter & ~script
        ending = newline << ONE | tail_before
        if options & SLASHES == 0:
            ending = ZERO
        if mark & (other << ONE | together_before) | slash & ending | script & ~letter != ZERO:
            state = _APART
            if fresh_before != ZERO:
                state = _ALONE
            elif together_before != ZERO:
                state = _TOGETHER
            elif tail_before != ZERO:
                state = _ENDED
            elif runs_before != ZERO:
                state = _SCRIPT
            elif word_before != ZERO:
                state = _WORD
            elif number_before != ZERO and taken == 1:
                state = _FIRST
            elif number_before != ZERO and taken == 2:
                state = _SECOND
            together, fresh, tail, words, number, runs, suffixes, over = _one_by_one(
                text,
                position,
                stop,
                options,
                state,
                other,
                mark,
                newline,
                slash,
                apostrophe,
                script,
                number,
                letter,
                after_blank,
                inner,
            )
            word = (word | words) & ~suffixes
        else:
            word |= mark
            runs = script
            over = ZERO
            apostrophe &= word << ONE | word_before
            if apostrophe != ZERO and options & SUFFIX != 0:
                while apostrophe != ZERO:
                    place = np.int64(trailing_zeros(apostrophe))
                    apostrophe &= apostrophe - ONE
                    size = np.int64(contraction_bytes(text, position + place, stop))
                    if size != 0 and (word << ONE | word_before) >> np.uint64(place) & ONE != ZERO:
                        suffix = ((ONE << np.uint64(size)) - ONE) << np.uint64(place)
                        word &= ~suffix
                        other &= ~suffix
                        if place + size > 64:
                            over = (ONE << np.uint64(place + size - 64)) - ONE
            together = other
            fresh = other & ~(other << ONE | together_before | after_blank)
            if inner & other != ZERO:
                for _ in range(3):
                    fresh |= (fresh << ONE | fresh_before) & inner & other
            tail = newline & ~(newline + (newline & (other << ONE | together_before | tail_before)))
        upper &= word
        lower &= word

        after_flat = flat << ONE | flat_before
        begins = together & ~(together << ONE | together_before | after_blank)
        begins |= word & ~(word << ONE | word_before | after_flat | fresh << ONE | fresh_before)
        begins |= runs & ~(runs << ONE | runs_before)

        # Capitals inside words.
        caseless = word & ~(upper | lower)
        small = lower | caseless & ~(caseless + (caseless & (lower << ONE | small_before)))
        caseless &= ~small
        begins |= upper & (small << ONE | small_before)
        if capitals >= 0:
            beyond = trailing_zeros(~upper)
            if beyond < np.uint64(64):
                if word >> beyond & ONE == ZERO:
                    set_bit(starts, capitals)
                capitals = np.int64(-1)
        doubtful = upper & (caseless << ONE | caseless_before)
        while doubtful != ZERO:
            bit = trailing_zeros(doubtful)
            doubtful &= doubtful - ONE
            beyond = bit + trailing_zeros(~(upper >> bit))
            if beyond >= np.uint64(64):
                capitals = 64 * block + np.int64(bit)
            elif word >> beyond & ONE == ZERO:
                begins |= ONE << bit

        groups, taken = number_starts(number, number_before, inner, group, taken)
        begins |= groups

        # White space: see walk_cl100k.
        line = newline & ~tail
        free = space & ~tail
        begins |= free & ~(free << ONE | free_before)
        turns, pending = turns_of_lines(starts, 64 * block, flat, newline, line, line_before, pending, ~newline)
        begins |= turns | last_before(starts, block, valid & ~space & after_flat, wide, wide_before) | added
        added = ZERO
        put(starts, block, begins & valid)

        word_before = word >> TOP
        number_before = number >> TOP
        blank_before = blank >> TOP
        flat_before = flat >> TOP
        line_before = line >> TOP
        free_before = free >> TOP
        together_before = together >> TOP
        fresh_before = fresh >> TOP
        tail_before = tail >> TOP
        runs_before = runs >> TOP
        small_before = small >> TOP
        caseless_before = caseless >> TOP
        wide_before = wide
    if base + 64 * blocks >= stop:
        if pending >= 0:
            set_bit(starts, pending)
        if capitals >= 0:
            set_bit(starts, capitals)
    return min(stop, base + 64 * blocks)
