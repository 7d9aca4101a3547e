"""Between stages 1 and 2: cutting pretokens between characters that no token spans.

Merging only ever makes tokens. So where no token holds the end of one character and the beginning of the next, nothing
merges across, and what stands on either side can be looked up for itself. In scripts without spaces a pretoken is a
clause, hardly ever seen before; its parts are a character or two, nearly always known: with it GPT-2's first pass over
Chinese is at twice gigatoken's speed, without it it was at 0.8 of it. (fastokens cuts so, too.)

Two neighbours of three bytes each, U+3000 to U+9FFF, are looked at: CJK punctuation, kana and Han.
"""

import numpy as np

from numbatok.kernels.dtypes import (
    HASH_LOW,
    ONE,
    TAIL_KEPT,
    U64,
    VIEW_MERGER,
    VIEW_SPANNED,
    VIEW_SPANNED_EDGES,
    VIEW_SPANNED_SHIFT,
    VIEW_TOKEN_STARTS,
    VIEW_TOKENS,
    VIEW_UNMERGED,
    WORK_STARTS,
    WORK_TAIL,
    ZERO,
)
from numbatok.kernels.intrinsics import array_at, at, call_kernel, field, load_u64, put, table, trailing_zeros
from numbatok.kernels.intrinsics_vector import range_mask
from numbatok.kernels.jit import helper, kernel
from numbatok.kernels.starts import set_bit

FIRST_LEAD = 0xE3
LEADS = 7  # E3 to E9
_SIX_BYTES = np.uint64((1 << 48) - 1)
_THREE_BYTES = np.uint64((1 << 24) - 1)
_THREE = np.uint64(24)
_WORD_SHIFT = np.uint64(6)
_WORD_MASK = np.uint64(63)
_LEAD = np.uint8(FIRST_LEAD)
_COUNT = np.uint8(LEADS)


@helper
def _pair_bit(pair, shift):
    """Bit of the six bytes of two characters in the filter of ``2 ** (64 - shift)`` bits."""
    return (pair * HASH_LOW) >> shift


@helper
def _edge_bit(last, lead):
    """Bit of the last byte of a character and the first of the next among the edges."""
    return U64(last & 63) << U64(4) | U64(lead & 15)


@kernel("int64(int64)")
def mark_spanned(view):
    """Enter what the tokens of a view span into its filter of pairs and its edges, which are zero; return how many.

    A token that holds both characters whole marks the pair; one that holds a part of either marks every pair with that
    last and that first byte. With an empty filter the pairs are only counted.
    """
    data = table(view, VIEW_TOKENS, np.uint8)
    starts = table(view, VIEW_TOKEN_STARTS, np.int64)
    spanned = table(view, VIEW_SPANNED, np.uint64)
    edges = table(view, VIEW_SPANNED_EDGES, np.uint64)
    shift = U64(field(view, VIEW_SPANNED_SHIFT))
    found = np.int64(0)
    for token in range(len(starts) - 1):
        begin = at(starts, token)
        end = at(starts, token + 1)
        for place in range(begin + 1, end):
            lead = np.int64(at(data, place))
            if lead < FIRST_LEAD or lead >= FIRST_LEAD + LEADS:
                continue
            last = np.int64(at(data, place - 1))
            if last & 0xC0 != 0x80:
                continue
            found += 1
            if len(spanned) == 0:
                continue
            if place - 3 >= begin and place + 3 <= end:
                set_bit(spanned, _pair_bit(load_u64(data, place - 3) & _SIX_BYTES, shift))
            else:
                set_bit(edges, _edge_bit(last, lead))
    return found


@helper
def _has_lead(data, begin, end):
    """Whether a character that may be cut from its neighbour begins in ``data[begin:end]``."""
    place = begin
    while place < end and not FIRST_LEAD <= np.int64(at(data, place)) < FIRST_LEAD + LEADS:
        place += 1
    return place < end


@kernel("int64(int64, int64)")
def mark_unmerged(view, work):
    """Keep whole what is a token only as a whole: see the edges of tokens that merging does not make; return how many.

    A pretoken that is such a token is that token, but a part of a pretoken is not. So nothing is cut before the first
    or after the last character of one. ``VIEW_WHOLE_LIMIT`` is 0 meanwhile.
    """
    data = table(view, VIEW_TOKENS, np.uint8)
    starts = table(view, VIEW_TOKEN_STARTS, np.int64)
    spanned = table(view, VIEW_SPANNED, np.uint64)
    shift = U64(field(view, VIEW_SPANNED_SHIFT))
    found = np.int64(0)
    for token in range(len(starts) - 1):
        begin = at(starts, token)
        end = at(starts, token + 1)
        if end - begin < 3 or not _has_lead(data, begin, end):
            continue
        if call_kernel(field(view, VIEW_MERGER), (view, work, field(view, VIEW_TOKENS) + begin, end - begin)) == 1:
            continue
        found += 1
        set_bit(spanned, _pair_bit((load_u64(data, begin) & _THREE_BYTES) << _THREE, shift))
        set_bit(spanned, _pair_bit(load_u64(data, end - 3) & _THREE_BYTES, shift))
    return found


@kernel("int64(int64, int64, int64, int64, int64, int64)")
def cut_unspanned(view, work, text, length, base, end):
    """Mark in ``WORK_STARTS``, the bitmap from ``base`` on, where pretokens of ``text[base:end]`` can be cut.

    Text that another thread changes is cut somewhere. Returns how many candidates there were.
    """
    source = array_at(text, length, np.uint8)
    tail = table(work, WORK_TAIL, np.uint8)
    tail_base = length - min(length, TAIL_KEPT)
    starts = table(work, WORK_STARTS, np.uint64)
    spanned = table(view, VIEW_SPANNED, np.uint64)
    edges = table(view, VIEW_SPANNED_EDGES, np.uint64)
    shift = U64(field(view, VIEW_SPANNED_SHIFT))
    unmerged = field(view, VIEW_UNMERGED) != 0
    leads_before = ZERO
    count = np.int64(0)
    for block in range((end - base + 63) >> 6):
        position = base + 64 * block
        if position + 64 <= length:
            leads = range_mask(source, position, _LEAD, _COUNT, np.uint8(0))
        else:
            leads = range_mask(tail, position - tail_base, _LEAD, _COUNT, np.uint8(0))
        candidates = leads & (leads << U64(3) | leads_before >> U64(61))
        leads_before = leads
        if candidates == ZERO:
            continue
        candidates &= ~at(starts, block)
        if position + 64 > end:
            candidates &= (ONE << U64(end - position)) - ONE
        cuts = ZERO
        while candidates != ZERO:
            bit = trailing_zeros(candidates)
            candidates &= candidates - ONE
            place = position + np.int64(bit)
            if place + 5 <= length:
                pair = load_u64(source, place - 3)
            else:
                pair = load_u64(tail, place - 3 - tail_base)
            last = np.int64(pair >> U64(16)) & 0xFF
            lead = np.int64(pair >> U64(24)) & 0xFF
            pair_bit = _pair_bit(pair & _SIX_BYTES, shift)
            edge_bit = _edge_bit(last, lead)
            joined = at(spanned, pair_bit >> _WORD_SHIFT) >> (pair_bit & _WORD_MASK)
            if unmerged:
                before = _pair_bit(pair & _THREE_BYTES, shift)
                after = _pair_bit(pair & _SIX_BYTES & ~_THREE_BYTES, shift)
                joined |= at(spanned, before >> _WORD_SHIFT) >> (before & _WORD_MASK)
                joined |= at(spanned, after >> _WORD_SHIFT) >> (after & _WORD_MASK)
            joined |= at(edges, edge_bit >> _WORD_SHIFT) >> (edge_bit & _WORD_MASK)
            cuts |= (~joined & ONE) << bit
            count += 1
        put(starts, block, at(starts, block) | cuts)
    return count
