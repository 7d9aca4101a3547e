"""Finding added tokens in text: before the four stages, since each one cuts the text exactly."""

import numpy as np

from numbatok.kernels.dtypes import (
    ADDED_AS_TEXT,
    ALL_ONES,
    HASH_LOW,
    MANY_LEADS,
    ONE,
    TAIL_KEPT,
    U64,
    VIEW_ADDED_AT_NODE,
    VIEW_ADDED_EDGES,
    VIEW_ADDED_FIRST,
    VIEW_ADDED_LEAD,
    VIEW_ADDED_LEADS,
    VIEW_ADDED_SHIFT,
    WORK_ACTIONS,
    WORK_TAIL,
    ZERO,
)
from numbatok.kernels.intrinsics import array_at, at, field, range_mask, table, trailing_zeros
from numbatok.kernels.jit import helper

_NODE_SHIFT = np.uint64(24)
_NODE_MASK = np.uint64((1 << 24) - 1)
_BYTE_SHIFT = np.uint64(8)


@helper
def edge_slot(node, byte, shift):
    """First slot of the trie's edge in a table of ``2 ** (64 - shift)`` slots."""
    return ((U64(node) << _BYTE_SHIFT | U64(byte)) * HASH_LOW) >> shift


@helper
def _longest_at(edges, shift, token_at_node, text, position, length):
    """(index, end) of the longest added token that begins at ``text[position]``, or (-1, position)."""
    mask = U64(len(edges)) - ONE
    node = np.int64(0)
    found = np.int64(-1)
    end = position
    here = position
    while here < length:
        wanted = U64(node) << _BYTE_SHIFT | U64(at(text, here))
        slot = (wanted * HASH_LOW) >> shift
        while True:
            edge = at(edges, slot)
            if edge == ALL_ONES or edge >> _NODE_SHIFT == wanted:
                break
            slot = (slot + ONE) & mask
        if edge == ALL_ONES:
            break
        node = np.int64(edge & _NODE_MASK)
        here += 1
        token = np.int64(at(token_at_node, node))
        if token >= 0:
            found = token
            end = here
    return found, end


@helper
def next_added_token(view, work, text, length, begin, until):
    """(index, start, end) of the first added token that begins in ``text[begin:until]`` and is not to be text.

    The leftmost match counts, of those the longest; one that the caller treats as text is passed over by one byte, as
    tiktoken does. Index -1 where there is none. Costs a compare a byte and first byte of the added tokens: 0.02 ns a
    byte for one.
    """
    source = array_at(text, length, np.uint8)
    tail = table(work, WORK_TAIL, np.uint8)
    tail_base = length - min(length, TAIL_KEPT)
    actions = table(work, WORK_ACTIONS, np.uint8)
    first = table(view, VIEW_ADDED_FIRST, np.uint8)
    edges = table(view, VIEW_ADDED_EDGES, np.uint64)
    shift = U64(field(view, VIEW_ADDED_SHIFT))
    token_at_node = table(view, VIEW_ADDED_AT_NODE, np.int32)
    leads = field(view, VIEW_ADDED_LEADS)
    lead_0 = np.uint8(field(view, VIEW_ADDED_LEAD))
    lead_1 = np.uint8(field(view, VIEW_ADDED_LEAD + 1))
    lead_2 = np.uint8(field(view, VIEW_ADDED_LEAD + 2))

    for position in range(begin, until, 64):
        if leads < MANY_LEADS:
            if position + 64 <= length:
                block, offset = source, position
            else:
                block, offset = tail, position - tail_base
            candidates = range_mask(block, offset, lead_0, np.uint8(1), np.uint8(0))
            if leads > 1:
                candidates |= range_mask(block, offset, lead_1, np.uint8(1), np.uint8(0))
                candidates |= range_mask(block, offset, lead_2, np.uint8(1), np.uint8(0))
        else:
            candidates = ZERO
            for i in range(min(64, until - position)):
                candidates |= U64(at(first, np.int64(at(source, position + i)))) << U64(i)
        if until - position < 64:
            candidates &= (ONE << U64(until - position)) - ONE
        while candidates != ZERO:
            start = position + np.int64(trailing_zeros(candidates))
            candidates &= candidates - ONE
            token, end = _longest_at(edges, shift, token_at_node, source, start, length)
            if token >= 0 and at(actions, token) != ADDED_AS_TEXT:
                return token, start, end
    return np.int64(-1), until, until
