"""Stage 1: where pretokens begin, as a bitmap of one bit a byte.

A *walker* is a kernel that begins at a pretoken's start and marks the starts from there on::

    walk(view, work, text, length, base, stop, blocks) -> decided

    text, length   address of the text and its bytes; nothing outside is read
    base           byte offset where a scan of the split rule stands, that is: a pretoken begins there
    stop           byte offset where the text ends for the split rule (an added token, or the end)
    blocks         how many blocks of 64 bytes from ``base`` on to walk; they reach ``stop`` when
                   ``base + 64 * blocks >= stop``
    decided        byte offset below which every bit set is a start of the whole text, however it goes on; it is
                   ``stop`` when the blocks reach it. The last start below it may begin an unfinished pretoken.

Bit ``i`` of the bitmap (``WORK_STARTS``) is the byte ``base + i``; bit 0 is always set, bits at and after ``stop``
never. The split rules look at nothing before the place where they stand, so walking on from any start that was found
continues the same cut: that is how chunks, buffers that grow, and workers on one document all resume.
"""

import numpy as np

from numbatok.kernels.dtypes import (
    ALL_ONES,
    LETTER,
    NUMBER,
    ONE,
    SPACE,
    TAIL_BYTES,
    TAIL_KEPT,
    VIEW_CLASSES,
    WORK_STARTS,
    WORK_TAIL,
    ZERO,
)
from numbatok.kernels.intrinsics import array_at, at, load_u64, put, range_mask, store_u64, table, trailing_zeros
from numbatok.kernels.jit import helper, kernel

_U8 = np.uint8
_TOP = np.uint64(63)
_TWO = np.uint64(2)

#: First bytes of UTF-8 whose characters are letters, all of them: most of Cyrillic (U+0400 to U+047F), of Han (U+5000
#: to U+9FFF) and of Hangul (U+B000 to U+CFFF). A block of those is marked at once, five times as fast as one by one.
LETTER_LEADS = (0xD0, 0xD1, 0xE5, 0xE6, 0xE7, 0xE8, 0xE9, 0xEB, 0xEC)


@helper
def keep_tail(work, text, length):
    """Copy the text's last bytes, followed by zeros, into the scratch, for reads that would cross its end."""
    tail = table(work, WORK_TAIL, np.uint8)
    source = array_at(text, length, np.uint8)
    if length >= TAIL_KEPT:
        for i in range(0, TAIL_KEPT, 8):
            store_u64(tail, i, load_u64(source, length - TAIL_KEPT + i))
    else:
        for i in range(0, TAIL_KEPT, 8):
            store_u64(tail, i, ZERO)
        for i in range(length):
            put(tail, i, at(source, i))
    for i in range(TAIL_KEPT, TAIL_BYTES, 8):
        store_u64(tail, i, ZERO)


@helper
def character_at(text, position, stop):
    """(code point, bytes) of the character at ``text[position]``; never reads at or after ``stop``.

    Text is valid UTF-8 unless another thread changes it meanwhile; then the result is some code point below 2^21 and a
    length that stays inside, and nothing worse happens.
    """
    lead = np.int64(at(text, position))
    room = stop - position
    if lead < 0xC0 or room < 2:
        return lead, np.int64(1)
    second = np.int64(at(text, position + 1)) & 0x3F
    if lead < 0xE0 or room < 3:
        return (lead & 0x1F) << 6 | second, np.int64(2)
    third = np.int64(at(text, position + 2)) & 0x3F
    if lead < 0xF0 or room < 4:
        return (lead & 0x0F) << 12 | second << 6 | third, np.int64(3)
    fourth = np.int64(at(text, position + 3)) & 0x3F
    return (lead & 0x07) << 18 | second << 12 | third << 6 | fourth, np.int64(4)


@helper
def _contraction_bytes(text, position, stop):
    """Bytes of the contraction at the apostrophe ``text[position]``: 2 ('s 'd 'm 't), 3 ('ll 've 're) or 0."""
    room = stop - position
    if room < 2:
        return 0
    first = at(text, position + 1)
    if first == 115 or first == 100 or first == 109 or first == 116:
        return 2
    if room < 3:
        return 0
    second = at(text, position + 2)
    if first == 108 and second == 108:
        return 3
    if (first == 118 or first == 114) and second == 101:
        return 3
    return 0


@kernel("int64(int64, int64, int64, int64, int64, int64, int64)")
def walk_r50k(view, work, text, length, base, stop, blocks):
    r"""Walk GPT-2's rule: ``'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+``.

    Each byte has one class (letter, number, white space, other), a character's bytes all its class. A pretoken begins
    where the class changes, except that a U+0020 is drawn to what follows it: so it begins at the last character of
    white space before anything else, and where that was a U+0020, not at the character after it. A contraction begins
    at an apostrophe where a pretoken begins, and ends it early.

    Parameters and result: see the module. The method is that of the class masks of simdjson (Langdale and Lemire,
    "Parsing Gigabytes of JSON per Second", 2019, section 3.1), applied to runs of classes.
    """
    source = array_at(text, length, np.uint8)
    tail = table(work, WORK_TAIL, np.uint8)
    tail_base = length - min(length, TAIL_KEPT)
    starts = table(work, WORK_STARTS, np.uint64)
    classes = table(view, VIEW_CLASSES, np.uint8)

    # What the block before left: whether its last byte was of the class, bits of its last character that belong to
    # this block, and starts to take away and to add because of a contraction.
    letter_before = number_before = space_before = other_before = blank_before = ZERO
    letters_over = numbers_over = spaces_over = over = ZERO
    wide_before = ZERO  # continuation bytes of white space (U+00A0, U+3000, ...) in the block before
    spoilt = ZERO
    added = ONE  # the base

    for block in range(blocks):
        position = base + 64 * block
        if position + 64 <= length:
            bytes_, offset = source, position
        else:
            bytes_, offset = tail, position - tail_base
        valid = ALL_ONES
        if stop - position < 64:
            valid = (ONE << np.uint64(stop - position)) - ONE

        letter = range_mask(bytes_, offset, _U8(97), _U8(26), _U8(32))
        number = range_mask(bytes_, offset, _U8(48), _U8(10), _U8(0))
        blank = range_mask(bytes_, offset, _U8(32), _U8(1), _U8(0))
        space = range_mask(bytes_, offset, _U8(9), _U8(5), _U8(0)) | blank
        apostrophe = range_mask(bytes_, offset, _U8(39), _U8(1), _U8(0))
        high = range_mask(bytes_, offset, _U8(128), _U8(128), _U8(0)) & valid
        letter &= valid
        number &= valid
        space &= valid
        blank &= valid

        wide = ZERO
        if high | over != ZERO:
            letter |= letters_over & valid
            number |= numbers_over & valid
            space |= spaces_over & valid
            wide = spaces_over & valid
            high &= ~over
            letters_over = numbers_over = spaces_over = over = ZERO
            # Characters whose first byte says all: see LETTER_LEADS.
            pairs = range_mask(bytes_, offset, _U8(0xD0), _U8(2), _U8(0)) & high
            triples = (
                range_mask(bytes_, offset, _U8(0xE5), _U8(5), _U8(0))
                | range_mask(bytes_, offset, _U8(0xEB), _U8(2), _U8(0))
            ) & high
            whole = pairs | pairs << ONE | triples | triples << ONE | triples << _TWO
            letter |= whole & valid
            high &= ~whole
            over = pairs >> _TOP | triples >> _TOP | triples >> (_TOP - ONE) | (triples >> _TOP) << ONE
            letters_over = over
            while high != ZERO:
                bit = np.int64(trailing_zeros(high))
                code_point, bytes_used = character_at(source, position + bit, stop)
                run = ((ONE << np.uint64(bytes_used)) - ONE) << np.uint64(bit)
                high &= ~run
                rest = ZERO
                if bit + bytes_used > 64:
                    rest = (ONE << np.uint64(bit + bytes_used - 64)) - ONE
                    over |= rest
                kind = at(classes, code_point)
                if kind == LETTER:
                    letter |= run
                    letters_over |= rest
                elif kind == NUMBER:
                    number |= run
                    numbers_over = rest
                elif kind == SPACE:
                    space |= run
                    spaces_over = rest
                    wide |= run & (run - (ONE << np.uint64(bit)))

        other = valid & ~(letter | number | space)
        changes = (
            (letter & ~(letter << ONE | letter_before))
            | (number & ~(number << ONE | number_before))
            | (space & ~(space << ONE | space_before))
            | (other & ~(other << ONE | other_before))
        )
        after_space = changes & ~space & (space << ONE | space_before)
        last_space = after_space >> ONE
        last_space_before = (after_space & ONE) << _TOP
        if wide | wide_before != ZERO:
            # The last byte of that white space is a continuation byte: go back to its character's first.
            for _ in range(2):
                moved = last_space & wide
                moved_before = last_space_before & wide_before
                last_space = (last_space ^ moved) | moved >> ONE
                last_space_before = (last_space_before ^ moved_before) | moved_before >> ONE | (moved & ONE) << _TOP
        begins = (changes & ~(after_space & (blank << ONE | blank_before))) | last_space
        begins = (begins & ~spoilt) | added
        if block > 0:
            put(starts, block - 1, at(starts, block - 1) | last_space_before)

        spoilt = added = ZERO
        apostrophe &= begins
        while apostrophe != ZERO:
            bit = np.int64(trailing_zeros(apostrophe))
            apostrophe &= apostrophe - ONE
            taken = _contraction_bytes(source, position + bit, stop)
            if taken != 0:
                if bit < 63:
                    begins &= ~(ONE << np.uint64(bit + 1))
                else:
                    spoilt = ONE
                end = bit + taken
                if end < 64:
                    begins |= ONE << np.uint64(end)
                else:
                    added = ONE << np.uint64(end - 64)
        begins &= valid
        put(starts, block, begins)

        letter_before = letter >> _TOP
        number_before = number >> _TOP
        space_before = space >> _TOP
        other_before = other >> _TOP
        blank_before = blank >> _TOP
        wide_before = wide
    return min(stop, base + 64 * blocks)
