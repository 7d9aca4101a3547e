"""Finding added tokens in text: before the four stages, since each one cuts the text exactly.

There are two tries, searched one after the other: the raw one in the text as it is, the normalized one in what lies
between two matches of the first. In each the leftmost match counts, of those the longest, and matches do not overlap.
"""

import numpy as np

from numbatok.kernels.dtypes import (
    ADDED_AS_TEXT,
    ADDED_LSTRIP,
    ADDED_RSTRIP,
    ADDED_SINGLE_WORD,
    ALL_ONES,
    HASH_LOW,
    IS_SPACE,
    IS_WORD,
    MANY_LEADS,
    ONE,
    TAIL_KEPT,
    TRIE_AT_NODE,
    TRIE_EDGES,
    TRIE_FIRST,
    TRIE_LEAD,
    TRIE_LEADS,
    TRIE_SHIFT,
    U64,
    VIEW_ADDED_ANY_FLAG,
    VIEW_ADDED_FLAGS,
    VIEW_CHARACTERS,
    VIEW_FINDER,
    WORK_ACTIONS,
    WORK_TAIL,
    WORK_VIEW,
    ZERO,
)
from numbatok.kernels.intrinsics import array_at, at, call_kernel, field, set_field, table, trailing_zeros
from numbatok.kernels.intrinsics_vector import pair_in_256, range_mask
from numbatok.kernels.jit import helper, kernel
from numbatok.kernels.starts import character_at, keep_tail

_NODE_SHIFT = np.uint64(24)
_NODE_MASK = np.uint64((1 << 24) - 1)
_BYTE_SHIFT = np.uint64(8)
_U8 = np.uint8


@helper
def edge_slot(node, byte, shift):
    """First slot of the trie's edge in a table of ``2 ** (64 - shift)`` slots."""
    return ((U64(node) << _BYTE_SHIFT | U64(byte)) * HASH_LOW) >> shift


@helper
def _longest_at(edges, shift, token_at_node, text, position, limit):
    """(index, end) of the longest added token that begins at ``text[position]`` and ends by ``limit``, or (-1, ...)."""
    mask = U64(len(edges)) - ONE
    node = np.int64(0)
    found = np.int64(-1)
    end = position
    here = position
    while here < limit:
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
def _candidates(trie, leads, block, offset):
    """Bitmap of the 64 bytes from ``block[offset]`` on where one of the trie's leads begins."""
    found = ZERO
    for i in range(leads):
        lead = field(trie, TRIE_LEAD + i)
        here = range_mask(block, offset, _U8(lead & 0xFF), _U8(1), _U8(0))
        if here != ZERO:
            other = range_mask(block, offset + (lead >> 8 & 0xFF), _U8(lead >> 16 & 0xFF), _U8(1), _U8(0))
            found |= here & other
    return found


@helper
def _any_candidate(trie, leads, text, position):
    """Whether :func:`_candidates` finds any in the 256 bytes from ``text[position]`` on: a tenth of its time."""
    found = False
    for i in range(leads):
        lead = field(trie, TRIE_LEAD + i)
        found |= pair_in_256(text, position, _U8(lead & 0xFF), lead >> 8 & 0xFF, _U8(lead >> 16 & 0xFF))
    return found


@helper
def _character_before(text, position, begin):
    """(code point, bytes) of the character that ends at ``text[position]``; nothing before ``begin`` is read."""
    start = position - 1
    while start > begin and position - start < 4 and at(text, start) & 0xC0 == 0x80:
        start -= 1
    code_point, _ = character_at(text, start, position)
    return code_point, position - start


@helper
def _is_alone(text, start, end, begin, limit, characters):
    """Whether no word character stands beside ``text[start:end]`` within ``text[begin:limit]``."""
    if start > begin:
        code_point, _ = _character_before(text, start, begin)
        if at(characters, code_point) & IS_WORD != 0:
            return False
    if end < limit:
        code_point, _ = character_at(text, end, limit)
        if at(characters, code_point) & IS_WORD != 0:
            return False
    return True


@helper
def _spaces_before(text, position, begin, characters):
    """Where the white space that ends at ``text[position]`` begins, not before ``begin``."""
    while position > begin:
        code_point, size = _character_before(text, position, begin)
        if at(characters, code_point) & IS_SPACE == 0:
            break
        position -= size
    return position


@helper
def _spaces_after(text, position, limit, characters):
    """Where the white space that begins at ``text[position]`` ends, not after ``limit``."""
    while position < limit:
        code_point, size = character_at(text, position, limit)
        if at(characters, code_point) & IS_SPACE == 0:
            break
        position += size
    return position


@kernel("int64(int64, int64, int64, int64, int64, int64, int64, int64, int64, int64)")
def next_added_token(view, work, trie, match, text, length, segment, floor, begin, limit):
    """Index of the first added token of a trie in ``text[begin:limit]``, or -1 where there is none.

    Parameters
    ----------
    view, work : addresses of the view and of a scratch record, with the caller's actions
    trie : address of the trie's fields in the view
    match : address of four fields, of which all but the first are set where one is found: where it starts and stops,
        white space included that it takes along, and where the search goes on
    text, length : address of the text and its bytes; the scratch's tail is that of this text
    begin : byte offset from which on it is looked for
    segment, limit : the part of the text that counts; nothing outside is looked at
    floor : where the token before stopped: white space before it is not taken along, and a token that would begin with
        such and end there is none

    One that the caller treats as text is passed over by one byte, as in tiktoken; one that is no single word is passed
    over whole, as in ``tokenizers``.

    Costs 0.1 ns a byte of English where the tokens have few leads, which vectors compare, 1 ns where they have many.
    """
    source = array_at(text, length, np.uint8)
    tail = table(work, WORK_TAIL, np.uint8)
    tail_base = length - min(length, TAIL_KEPT)
    actions = table(work, WORK_ACTIONS, np.uint8)
    first = table(trie, TRIE_FIRST, np.uint8)
    edges = table(trie, TRIE_EDGES, np.uint64)
    shift = U64(field(trie, TRIE_SHIFT))
    token_at_node = table(trie, TRIE_AT_NODE, np.int32)
    leads = field(trie, TRIE_LEADS)
    any_flag = field(view, VIEW_ADDED_ANY_FLAG) != 0
    flags = table(view, VIEW_ADDED_FLAGS, np.uint8)
    characters = table(view, VIEW_CHARACTERS, np.uint8)
    in_place = min(limit, length - 127)  # blocks that begin before it lie inside the text, with their leads' offsets

    position = begin
    allowed_from = begin  # candidates before it lie in a token that was passed over whole
    while position < limit:
        candidates = ZERO
        if leads <= MANY_LEADS:
            while position + 192 < in_place and not _any_candidate(trie, leads, source, position):
                position += 256
            while position < in_place and candidates == ZERO:
                candidates = _candidates(trie, leads, source, position)
                position += 64
            if candidates == ZERO and position < limit:
                if position < tail_base:  # near the end, yet not in the tail: byte by byte
                    for i in range(min(64, limit - position)):
                        candidates |= U64(at(first, np.int64(at(source, position + i)))) << U64(i)
                else:
                    candidates = _candidates(trie, leads, tail, position - tail_base)
                position += 64
        else:
            for i in range(min(64, limit - position)):
                candidates |= U64(at(first, np.int64(at(source, position + i)))) << U64(i)
            position += 64
        if position > limit:
            candidates &= ALL_ONES >> U64(min(position - limit, 63))
        while candidates != ZERO:
            start = position - 64 + np.int64(trailing_zeros(candidates))
            candidates &= candidates - ONE
            if start < allowed_from or start >= limit:
                continue
            token, end = _longest_at(edges, shift, token_at_node, source, start, limit)
            if token < 0 or at(actions, token) == ADDED_AS_TEXT:
                continue
            stop = end
            if any_flag:
                flag = at(flags, token)
                if flag & ADDED_SINGLE_WORD != 0 and not _is_alone(source, start, end, segment, limit, characters):
                    allowed_from = end
                    continue
                if flag & ADDED_LSTRIP != 0:
                    start = max(_spaces_before(source, start, segment, characters), floor)
                if flag & ADDED_RSTRIP != 0:
                    stop = _spaces_after(source, end, limit, characters)
                if start >= stop:
                    allowed_from = end
                    continue
            set_field(match, 1, start)
            set_field(match, 2, stop)
            set_field(match, 3, end)
            return token
    return np.int64(-1)


@kernel("int64(int64, int64, int64, int64, int64, int64, int64)")
def search_text(work, first, match, text, length, floor, begin):
    """:func:`next_added_token` for a whole text, from Python; ``first`` is the trie's first field in the view."""
    view = field(work, WORK_VIEW)
    keep_tail(work, text, length)
    arguments = (view, work, view + 8 * first, match, text, length, np.int64(0), floor, begin, length)
    return call_kernel(field(view, VIEW_FINDER), arguments)
