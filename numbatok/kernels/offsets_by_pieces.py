"""Offsets of ids whose lengths do not tell them: the text is cut anew, and the ids dealt out to its pretokens.

So it is where the split rule removes pieces, where tokens are not bytes of the text, and where an added token takes
white space along.
"""

import numpy as np

from numbatok.kernels.dtypes import (
    CHUNK_BLOCKS,
    IS_SPACE,
    NEED_BITMAP,
    NEED_MERGE,
    ONE,
    VIEW_ALPHABET,
    VIEW_CHARACTERS,
    VIEW_DROPS,
    VIEW_IDS_PER_BYTE,
    VIEW_TOKEN_STARTS,
    VIEW_TOKENS,
    VIEW_WALKER,
    VIEW_WHOLE_LIMIT,
    WORK_DROPPED,
    WORK_NEEDED,
    WORK_RANKS,
    WORK_STARTS,
    WORK_SYMBOLS,
    ZERO,
)
from numbatok.kernels.encode import begin_at, next_added, pass_added
from numbatok.kernels.intrinsics import array_at, at, call_kernel, field, put, set_field, table, trailing_zeros
from numbatok.kernels.jit import helper
from numbatok.kernels.offset_plan import (
    INFO_BEGINS_INSIDE,
    INFO_CHARACTERS,
    INFO_CHARACTERS_SHIFT,
    INFO_ENDS_INSIDE,
    INFO_INSIDE_SHIFT,
    INFO_LENGTH,
    INFO_VARIES,
    MISPLACED,
    PLAN_ADDS_UP,
    PLAN_COUNT,
    PLAN_IDS,
    PLAN_IN_BYTES,
    PLAN_INFO,
    PLAN_LENGTHS_OF,
    PLAN_NUMBERS,
    PLAN_OFFSETS,
    PLAN_PREFIX,
    PLAN_SPACES,
    PLAN_SPACES_USED,
    PLAN_WORD_COUNTS,
    PLAN_WORDS,
    ROW_BASE,
    ROW_SHIFT,
    ROW_SOURCES,
    SPELLED_BLANK,
    is_inside,
)
from numbatok.kernels.starts import character_at, is_set, keep_tail, last_start
from numbatok.kernels.units import split_units


@helper
def _put_span(plan, row, place, begin, end, first, last):
    """Put the offsets of the id at ``place``: those in the text of a document's bytes ``begin`` to ``end``.

    These are whole characters, ``first`` to ``last`` (the one after the last of them), by which a row goes.
    """
    offsets = table(plan, PLAN_OFFSETS, np.int64)
    if row != 0:
        base, shift = field(row, ROW_BASE), field(row, ROW_SHIFT)
        if field(row, ROW_SOURCES) != 0:
            sources = table(row, ROW_SOURCES, np.int64)
            most = len(sources) - 1
            begin = base + at(sources, max(min(first, most), 0))
            end = base + at(sources, max(min(last - 1, most), 0)) + 1
        else:  # the U+0020 put before a text stands for its first character
            begin = base + max(first - shift, 0)
            end = base + max(last - shift, min(shift, 1))
    elif field(plan, PLAN_IN_BYTES) == 0:
        begin, end = first, last
    put(offsets, 2 * place, begin)
    put(offsets, 2 * place + 1, end)


@helper
def _put_bytes(plan, row, text, length, place, start, stop, known, count):
    """Put the offsets of a document's bytes ``start`` to ``stop``, widened to characters, for the id at ``place``.

    ``count`` first bytes of characters are before ``known``; returns the two for ``start``.
    """
    source = array_at(text, length, np.uint8)
    while start > 0 and is_inside(source, start):
        start -= 1
    while stop < length and is_inside(source, stop):
        stop += 1
    while known < start:
        count += not is_inside(source, known)
        known += 1
    while known > start:
        known -= 1
        count -= not is_inside(source, known)
    last = count
    for i in range(start, stop):
        last += not is_inside(source, i)
    _put_span(plan, row, place, start, stop, count, last)
    return known, count


@helper
def _length_of(plan, id):
    """Bytes of an id's token."""
    lengths = table(plan, PLAN_LENGTHS_OF, np.int64)
    number = 3 * np.int64(id)
    return at(lengths, number) if number < len(lengths) else np.int64(0)


@helper
def _is_whole(view, plan, source, begin, end, id):
    """Whether an id is the token that the pretoken ``source[begin:end]`` is, where such are taken whole."""
    numbers = table(plan, PLAN_NUMBERS, np.int32)
    starts = table(view, VIEW_TOKEN_STARTS, np.int64)
    data = table(view, VIEW_TOKENS, np.uint8)
    size = end - begin
    number = np.int64(id)
    if size > field(view, VIEW_WHOLE_LIMIT) or number >= len(numbers):
        return False
    symbol = np.int64(at(numbers, number))
    if symbol < 0 or symbol >= len(starts) - 1 or at(starts, symbol + 1) - at(starts, symbol) != size:
        return False
    first = at(starts, symbol)
    same = np.int64(0)
    while same < size and at(data, first + same) == at(source, begin + same):
        same += 1
    return same == size


@helper
def _model_width(alphabet, source, place):
    """Bytes that the model takes a byte for: those of its character of the byte alphabet, if there is one."""
    if len(alphabet) > 0:
        return np.int64(1) + (at(alphabet, np.int64(at(source, place))) >= 0x80)
    return np.int64(1)


@helper
def _deal_units(view, work, plan, row, text, length, begin, end, place, last_place, known, count):
    """Locate the ids of the pretoken from ``begin`` to ``end`` by its units; returns (next place or status, and the
    two of :func:`_put_bytes`).

    Ids whose offsets ``tokenizers`` leaves unconverted, as they reach past what it takes the pretoken for, are put as
    -1 minus them.
    """
    source = array_at(text, length, np.uint8)
    ids = table(plan, PLAN_IDS, np.uint32)
    offsets = table(plan, PLAN_OFFSETS, np.int64)
    if place < last_place and _is_whole(view, plan, source, begin, end, at(ids, place)):
        known, count = _put_bytes(plan, row, text, length, place, begin, end, known, count)
        return place + 1, known, count
    symbols = table(work, WORK_SYMBOLS, np.uint32)
    widths = table(work, WORK_RANKS, np.uint32)
    starts = table(view, VIEW_TOKEN_STARTS, np.int64)
    alphabet = table(view, VIEW_ALPHABET, np.uint16)
    needed = (end - begin) * field(view, VIEW_IDS_PER_BYTE)
    if needed > len(symbols):
        set_field(work, WORK_NEEDED, needed)
        return np.int64(NEED_MERGE), known, count
    units = split_units(view, array_at(text + begin, end - begin, np.uint8), end - begin, symbols, widths)
    prefix = field(plan, PLAN_PREFIX)
    unit = np.int64(0)
    done = np.int64(0)  # bytes of the model's text behind
    cursor = begin  # the byte of the document, and where it begins in the model's text
    at_cursor = np.int64(0)
    while unit < units and place < last_place:
        wanted = _length_of(plan, at(ids, place))
        made = np.int64(0)
        size = np.int64(0)
        while unit < units and (size == 0 or made < wanted):
            symbol = np.int64(at(symbols, unit))
            made += at(starts, symbol + 1) - at(starts, symbol) - (prefix if size > 0 else 0)
            size += np.int64(at(widths, unit))
            unit += 1
        if made != wanted:
            return np.int64(MISPLACED), known, count
        while cursor < end and at_cursor + _model_width(alphabet, source, cursor) <= done:
            at_cursor += _model_width(alphabet, source, cursor)
            cursor += 1
        stop, at_stop = cursor, at_cursor
        while stop < end and at_stop < done + size:
            at_stop += _model_width(alphabet, source, stop)
            stop += 1
        if at_stop < done + size:
            put(offsets, 2 * place, -1 - done)
            put(offsets, 2 * place + 1, -1 - done - size)
        else:
            known, count = _put_bytes(plan, row, text, length, place, cursor, stop, known, count)
        done += size
        place += 1
    return place if unit == units else np.int64(MISPLACED), known, count


@helper
def _deal_bytes(plan, row, text, length, begin, end, place, last_place, known, count):
    """Locate the ids of the bytes from ``begin`` to ``end``; returns what :func:`_deal_units` does.

    What the last of them has beyond the end is a suffix, in ASCII, that is not in the text.
    """
    ids = table(plan, PLAN_IDS, np.uint32)
    info = table(plan, PLAN_INFO, np.uint64)
    source = array_at(text, length, np.uint8)
    while known < begin:  # pieces that were removed
        count += not is_inside(source, known)
        known += 1
    # In characters a token may begin and end inside of one: how many begin in it is all that is asked.
    unknown = np.int64(INFO_VARIES)
    if field(plan, PLAN_IN_BYTES) != 0:
        unknown |= INFO_BEGINS_INSIDE | INFO_ENDS_INSIDE
    position = begin
    while position < end and place < last_place:
        number = np.int64(at(ids, place))
        word = np.int64(at(info, number)) if number < len(info) else np.int64(INFO_VARIES)
        if known == position and word & unknown == 0:
            stop = position + (word & INFO_LENGTH)
            following = count + (word >> INFO_CHARACTERS_SHIFT & INFO_CHARACTERS)
            if stop > end:
                following -= stop - end
                stop = end
            _put_span(plan, row, place, position, stop, count - (word >> INFO_INSIDE_SHIFT & 1), following)
            known, count = stop, following
        else:
            stop = min(position + _length_of(plan, number), end)
            known, count = _put_bytes(plan, row, text, length, place, position, stop, known, count)
            while known < stop:
                count += not is_inside(source, known)
                known += 1
        position = stop
        place += 1
    return place if position == end else np.int64(MISPLACED), known, count


@helper
def _is_blank(characters, point):
    """Whether trimming takes a character for white space; one stands for U+0020 in the byte alphabet."""
    return at(characters, point) & IS_SPACE != 0 or point == SPELLED_BLANK


@helper
def _note_spaces(view, plan, source, place, begin, end):
    """Note the white space at the ends of an added token, in characters, if tokens take any along."""
    characters = table(view, VIEW_CHARACTERS, np.uint8)
    spaces = table(plan, PLAN_SPACES, np.int64)
    used = field(plan, PLAN_SPACES_USED)
    if len(characters) == 0 or 3 * used + 3 > len(spaces):
        return
    before = behind = np.int64(0)
    position = begin
    while position < end:
        point, size = character_at(source, position, end)
        if not _is_blank(characters, point):
            break
        position += size
        before += 1
    position = end
    while position > begin:
        start = position - 1
        while start > begin and is_inside(source, start):
            start -= 1
        point, size = character_at(source, start, position)
        if not _is_blank(characters, point):
            break
        position = start
        behind += 1
    put(spaces, 3 * used, place)
    put(spaces, 3 * used + 1, before)
    put(spaces, 3 * used + 2, behind)
    set_field(plan, PLAN_SPACES_USED, used + 1)


@helper
def number_word(words, begin, end, number):
    """Note of which word the ids from ``begin`` to ``end`` are, where that is asked for; returns the next number."""
    if len(words) > 0:
        for place in range(begin, end):
            put(words, place, np.int32(number))
    return number + 1


@helper
def deal_out(view, work, plan, row, text, length, document, place, last_place):
    """Locate a document's ids by cutting it as :func:`encode.encode_documents` does; returns 0 or a status."""
    words = table(plan, PLAN_WORDS, np.int32)
    word = np.int64(0)
    source = array_at(text, length, np.uint8)
    starts = table(work, WORK_STARTS, np.uint64)
    dropped = table(work, WORK_DROPPED, np.uint64)
    drops = field(view, VIEW_DROPS) != 0
    adds_up = field(plan, PLAN_ADDS_UP) != 0 and len(words) == 0
    by_bytes = field(plan, PLAN_PREFIX) < 0  # the vocabulary is plain
    walker = field(view, VIEW_WALKER)
    keep_tail(work, text, length)
    base = np.int64(0)
    begin_at(work, base)
    known = np.int64(0)
    count = np.int64(0)
    reach = np.int64(CHUNK_BLOCKS)
    while True:
        match = next_added(view, work, text, length, base)
        token = field(work, match)
        stop = length
        if token >= 0:
            stop = max(field(work, match + 1), base)
        if base == stop:
            if token < 0:
                if len(words) > 0:
                    counts = array_at(field(plan, PLAN_WORD_COUNTS), field(plan, PLAN_COUNT), np.int64)
                    put(counts, document, word)
                return np.int64(0) if place == last_place else np.int64(MISPLACED)
            if place >= last_place:
                return np.int64(MISPLACED)
            begin, end = field(work, match + 1), field(work, match + 2)
            known, count = _put_bytes(plan, row, text, length, place, begin, end, known, count)
            _note_spaces(view, plan, source, place, begin, end)
            word = number_word(words, place, place + 1, word)
            place += 1
            base = pass_added(work, match)
            continue
        if adds_up:
            place, known, count = _deal_bytes(plan, row, text, length, base, stop, place, last_place, known, count)
            if place < 0:
                return place
            base = stop
            continue
        blocks = min((stop - base + 63) >> 6, reach)
        if blocks >= len(starts):
            set_field(work, WORK_NEEDED, blocks + 1)
            return np.int64(NEED_BITMAP)
        decided = call_kernel(walker, (view, work, text, length, base, stop, blocks))
        if decided < 0:
            return decided
        end = stop
        if decided < stop:
            end = base + last_start(starts, min(decided - base, 64 * blocks - 1))
            if end == base:
                reach *= 4
                continue
        start = base
        for block in range((end - base + 63) >> 6):
            bits = at(starts, block)
            while True:
                following = end
                if bits != ZERO:
                    following = min(base + 64 * block + np.int64(trailing_zeros(bits)), end)
                elif block < ((end - base + 63) >> 6) - 1:
                    break
                if start < following and not (drops and is_set(dropped, start - base)):
                    first = place
                    if by_bytes:
                        place, known, count = _deal_bytes(
                            plan, row, text, length, start, following, place, last_place, known, count
                        )
                    else:
                        place, known, count = _deal_units(
                            view, work, plan, row, text, length, start, following, place, last_place, known, count
                        )
                    if place < 0:
                        return place
                    word = number_word(words, first, place, word)
                start = following
                if bits == ZERO:
                    break
                bits &= bits - ONE
        base = end
        reach = np.int64(CHUNK_BLOCKS)
