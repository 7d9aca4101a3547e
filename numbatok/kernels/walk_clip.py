"""The walker of CLIP's rule: see :mod:`numbatok.kernels.starts`."""

import numpy as np

from numbatok.kernels.dtypes import (
    ALL_ONES,
    CUT_TOKENS,
    ONE,
    VIEW_OPTIONS,
    WORK_COARSE,
    WORK_DROPPED,
    WORK_STARTS,
    ZERO,
)
from numbatok.kernels.intrinsics import array_at, at, field, put, table, trailing_zeros
from numbatok.kernels.intrinsics_vector import ascii_letters, equal_to, in_range
from numbatok.kernels.jit import helper, kernel
from numbatok.kernels.starts import (
    TOP,
    block_address,
    letters_numbers_spaces,
    valid_bits,
)
from numbatok.kernels.walk_r50k import contraction_bytes

_START = np.frombuffer(b"<|startoftext|>", np.uint8).copy()
_END = np.frombuffer(b"<|endoftext|>", np.uint8).copy()


@helper
def _token_bytes(text, position, stop):
    """Bytes of ``<|startoftext|>`` or ``<|endoftext|>`` if the text has it at ``position``, else 0."""
    source = array_at(text, stop, np.uint8)
    for token in (_START, _END):
        size = len(token)
        same = stop - position >= size
        place = 0
        while same and place < size:
            same = at(source, position + place) == token[place]
            place += 1
        if same:
            return size
    return 0


@kernel("int64(int64, int64, int64, int64, int64, int64, int64)")
def walk_clip(view, work, text, length, base, stop, blocks):
    r"""Walk ``<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|\p{L}+|\p{N}|[^\s\p{L}\p{N}]+``, gaps dropped.

    Runs of letters and of others, single numbers, and what goes before these where others begin: a contraction, or one
    of the two tokens. The gaps are runs of white space, marked in WORK_DROPPED.

    With CUT_TOKENS, GPT-2's rule cuts these pieces again, which comes to cutting the two tokens into three. A walk from
    inside such a token would not know that a piece ends with it: ``decided`` is never there, and with WORK_COARSE they
    are not cut.

    Parameters and result: see :mod:`numbatok.kernels.starts`. Classes: LETTER, NUMBER, SPACE.
    """
    starts = table(work, WORK_STARTS, np.uint64)
    dropped = table(work, WORK_DROPPED, np.uint64)
    letter_before = space_before = other_before = ZERO
    cut_tokens = field(view, VIEW_OPTIONS) & CUT_TOKENS != 0 and field(work, WORK_COARSE) == 0
    until = base  # a contraction or token reaches so far, and a pretoken begins there
    held = base  # where it begins
    token = False  # whether it is a token to be cut
    for block in range(blocks):
        position = base + 64 * block
        bytes_ = block_address(work, text, length, position)
        valid = valid_bits(position, stop)
        letter = ascii_letters(bytes_) & valid
        number = in_range(bytes_, 48, 10) & valid
        space = (in_range(bytes_, 9, 5) | equal_to(bytes_, 32)) & valid
        apostrophe = equal_to(bytes_, 39) & valid
        special = apostrophe | equal_to(bytes_, 60) & valid  # or <
        high = in_range(bytes_, 128, 128) & valid
        inner = ZERO
        if high != ZERO:
            inner = in_range(bytes_, 0x80, 0x40)
            letters, numbers, spaces = letters_numbers_spaces(view, text, base, position, stop, bytes_, high, valid)
            letter |= letters
            number |= numbers
            space |= spaces
        other = valid & ~(letter | number | space)
        begins = letter & ~(letter << ONE | letter_before)
        begins |= other & ~(other << ONE | other_before)
        begins |= number & ~inner
        gone = space & ~(space << ONE | space_before)

        if until >= position:
            end = np.uint64(until - position)
            if not token:
                begins &= ALL_ONES << end
            begins |= (ONE << end) & ~space
            until = np.int64(-1)
        bits = special & begins
        while bits != ZERO:
            place = np.int64(trailing_zeros(bits))
            bits &= bits - ONE
            token = apostrophe >> np.uint64(place) & ONE == ZERO
            if token:
                size = np.int64(_token_bytes(text, position + place, stop))
                token = cut_tokens
            else:
                size = np.int64(contraction_bytes(text, position + place, stop))
            if size != 0:
                if not token:
                    begins &= ~((((ONE << np.uint64(size)) - ONE) ^ ONE) << np.uint64(place))
                if place + size >= 64:
                    until = position + place + size
                    held = position + place
                else:
                    begins |= (ONE << np.uint64(place + size)) & ~space
                    bits = special & begins & (ALL_ONES << np.uint64(place + size))
        put(starts, block, (begins | gone) & valid)
        put(dropped, block, gone)
        letter_before = letter >> TOP
        space_before = space >> TOP
        other_before = other >> TOP
    if until >= base + 64 * blocks and token and base + 64 * blocks < stop:
        return held
    return min(stop, base + 64 * blocks)
