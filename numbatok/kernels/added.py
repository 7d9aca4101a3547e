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
def _leads_at(block, offset, lead_0, lead_1, lead_2):
    """Bitmap of the 64 bytes from ``block[offset]`` on that are one of three."""
    return (
        range_mask(block, offset, lead_0, np.uint8(1), np.uint8(0))
        | range_mask(block, offset, lead_1, np.uint8(1), np.uint8(0))
        | range_mask(block, offset, lead_2, np.uint8(1), np.uint8(0))
    )


@helper
def next_added_token(view, work, text, length, begin, until):
    """(index, start, end) of the first added token that begins in ``text[begin:until]`` and is not to be text.

    The leftmost match counts, of those the longest; one that the caller treats as text is passed over by one byte, as
    tiktoken does. Index -1 where there is none. Costs 0.1 ns a byte of English where added tokens begin with at most
    three different bytes, which vectors compare, 1 ns where with more.
    """
    source = array_at(text, length, np.uint8)
    tail = table(work, WORK_TAIL, np.uint8)
    tail_base = length - min(length, TAIL_KEPT)
    actions = table(work, WORK_ACTIONS, np.uint8)
    first = table(view, VIEW_ADDED_FIRST, np.uint8)
    edges = table(view, VIEW_ADDED_EDGES, np.uint64)
    shift = U64(field(view, VIEW_ADDED_SHIFT))
    token_at_node = table(view, VIEW_ADDED_AT_NODE, np.int32)
    few_leads = field(view, VIEW_ADDED_LEADS) < MANY_LEADS
    lead_0 = np.uint8(field(view, VIEW_ADDED_LEAD))
    lead_1 = np.uint8(field(view, VIEW_ADDED_LEAD + 1))
    lead_2 = np.uint8(field(view, VIEW_ADDED_LEAD + 2))
    in_place = min(until, length - 63)  # blocks that begin before it lie inside the text

    position = begin
    while position < until:
        candidates = ZERO
        if few_leads:
            while position < in_place and candidates == ZERO:
                candidates = _leads_at(source, position, lead_0, lead_1, lead_2)
                position += 64
            if candidates == ZERO and position < until:
                candidates = _leads_at(tail, position - tail_base, lead_0, lead_1, lead_2)
                position += 64
        else:
            for i in range(min(64, until - position)):
                candidates |= U64(at(first, np.int64(at(source, position + i)))) << U64(i)
            position += 64
        if position > until:
            candidates &= ALL_ONES >> U64(min(position - until, 63))
        while candidates != ZERO:
            start = position - 64 + np.int64(trailing_zeros(candidates))
            candidates &= candidates - ONE
            token, end = _longest_at(edges, shift, token_at_node, source, start, length)
            if token >= 0 and at(actions, token) != ADDED_AS_TEXT:
                return token, start, end
    return np.int64(-1), until, until
