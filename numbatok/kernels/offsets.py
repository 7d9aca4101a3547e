"""From ids back to the text: which bytes, or characters, of it each id stands for.

It runs after encoding, so that encoding without it stays as fast. Where ids are bytes of the text merged, and nothing
is left out, their lengths add up and no text is read: a table by id tells how many bytes and first bytes of characters
each token has (:data:`INFO_LENGTH` and so on), 0.7 ns an id. Elsewhere the text is cut anew as in encoding, and the
ids are dealt out to the pretokens by the widths that ``tokenizers`` gives to units (:func:`merge.split_units`).

A document is mapped to the text by a row of int64 fields (``ROW_...``): as it is, without the U+0020 before it, or
through the characters that its own stand for after normalizing.
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
    WORK_VIEW,
    ZERO,
)
from numbatok.kernels.encode import begin_at, is_set, last_start, next_added, pass_added
from numbatok.kernels.intrinsics import array_at, at, call_kernel, field, put, set_field, table, trailing_zeros
from numbatok.kernels.jit import helper, kernel
from numbatok.kernels.merge import split_units
from numbatok.kernels.starts import character_at, keep_tail

# What a token is, in a word: bits 0..19 its bytes, 20..38 the first bytes of characters among them, 39..46 and 47..54
# the blanks at its begin and end that trimming leaves out, and:
INFO_LENGTH = (1 << 20) - 1
INFO_CHARACTERS_SHIFT = 20
INFO_CHARACTERS = (1 << 19) - 1
INFO_BEFORE_SHIFT = 39
INFO_BEHIND_SHIFT = 47
INFO_BLANKS = (1 << 8) - 1
INFO_INSIDE_SHIFT = 59
INFO_BEGINS_INSIDE = 1 << INFO_INSIDE_SHIFT  # it begins with a byte inside of a character
INFO_ENDS_INSIDE = 1 << 60  # it ends before the end of a character
#: Not told by the word: an added token that takes white space along, an id of two tokens, what is too long for it.
INFO_VARIES = 1 << 62

# Fields of a plan: what a call works on.
PLAN_ADDRESSES = 0  # of int64[documents], as encode_documents takes them: addresses, lengths, ends
PLAN_LENGTHS = 1
PLAN_ENDS = 2
PLAN_COUNT = 3
PLAN_IDS = 4  # uint32: all ids
PLAN_INFO = 6  # uint64[limit]: a word for each id
PLAN_NUMBERS = 8  # int32[limit]: the symbol of each id; others are no symbols of the view
PLAN_ROWS = 10  # int64[documents, ROW_FIELDS], or empty where each document is a text as it is
PLAN_IN_BYTES = 12  # 1: offsets in bytes, 0: in characters
PLAN_ADDS_UP = 13  # 1: the ids between two added tokens are its bytes, all of them
PLAN_PREFIX = 14  # bytes of the prefix of later units
PLAN_OFFSETS = 15  # int64[2 * ids]: the offsets
PLAN_SPACES = 17  # int64: rows (place, white space before, behind) of added tokens, which may take some along; or empty
PLAN_SPACES_USED = 19
PLAN_FIRST = 20  # resume at this document
PLAN_LENGTHS_OF = 21  # int64[limit, 3]: of each id, its bytes and the blanks at its begin and end, in characters
PLAN_TRIM = 23  # how each document, a text as it is, is trimmed at once: TRIM_..., or 0 for not at all
PLAN_WORDS = 24  # int32[ids]: the pretoken or added token of its document that each id is of, or empty if not asked for
PLAN_WORD_COUNTS = 26  # address of int64[documents]: how many of them each document has, those without an id among them
PLAN_FIELDS = 27

# How a document lies in its text.
ROW_BASE = 0  # where its segment begins in the text, in the unit asked for; of ids: where they begin
ROW_STOP = 1  # of ids: where they end
ROW_SHIFT = 2  # bytes before it that are not in the text
ROW_SOURCES = 3  # address and length of int64: the segment's character that each of the document's stands for, or 0
ROW_EDGES = 5  # address of int64: where the segment's characters begin in bytes, and the last one ends
ROW_FIELDS = 6

TRIM_ALL = 1
TRIM_KEEPS_AT_START = 2  # but for the one blank of an id whose offsets begin at 0 ...
TRIM_KEEPS_FIRST = 4  # ... or of a text's first id
SPELLED_BLANK = 0x120  # the character of the byte alphabet that stands for U+0020
MISPLACED = -50  # the ids are not those of the documents


@helper
def _is_inside(source, place):
    """Whether a byte is not the first of its character."""
    return at(source, place) & 0xC0 == 0x80


@helper
def _width(lead):
    """Bytes of the character that begins with a byte."""
    return np.int64(1) + (lead >= 0xC0) + (lead >= 0xE0) + (lead >= 0xF0)


@helper
def _put_span(plan, row, text, length, place, begin, end, first, last):
    """Put the offsets of the id at ``place``: those in the text of a document's bytes ``begin`` to ``end``.

    These are whole characters, ``first`` to ``last`` (the one after the last of them).
    """
    offsets = table(plan, PLAN_OFFSETS, np.int64)
    in_bytes = field(plan, PLAN_IN_BYTES) != 0
    base = np.int64(0)
    if row != 0:
        base = field(row, ROW_BASE)
        if field(row, ROW_SOURCES) != 0:
            sources = table(row, ROW_SOURCES, np.int64)
            most = len(sources) - 1
            begin = at(sources, max(min(first, most), 0))
            end = at(sources, max(min(last - 1, most), 0)) + 1
            if in_bytes:
                edges = array_at(field(row, ROW_EDGES), end + 1, np.int64)
                begin, end = at(edges, begin), at(edges, end)
            put(offsets, 2 * place, base + begin)
            put(offsets, 2 * place + 1, base + end)
            return
        shift = field(row, ROW_SHIFT)
        if shift != 0:  # the U+0020 put before a text stands for its first character
            source = array_at(text, length, np.uint8)
            if begin < shift:
                begin = shift
            first = max(first, shift)
            if end <= shift and shift < length:
                end = shift + _width(at(source, shift))
            last = max(last, shift + 1)
            begin, end, first, last = begin - shift, end - shift, first - shift, last - shift
    if in_bytes:
        put(offsets, 2 * place, base + begin)
        put(offsets, 2 * place + 1, base + end)
    else:
        put(offsets, 2 * place, base + first)
        put(offsets, 2 * place + 1, base + last)


@helper
def _put_trimmed(offsets, place, start, stop, word, trim, is_first):
    """Put the offsets of a token in a text as it is, without its blanks, a byte each."""
    before = word >> INFO_BEFORE_SHIFT & INFO_BLANKS
    behind = word >> INFO_BEHIND_SHIFT & INFO_BLANKS
    if before == 1 and (
        (start == 0 and trim & TRIM_KEEPS_AT_START != 0) or (is_first and trim & TRIM_KEEPS_FIRST != 0)
    ):
        before = np.int64(0)
    start = min(start + before, stop)
    put(offsets, 2 * place, start)
    put(offsets, 2 * place + 1, max(stop - behind, start))


@helper
def _add_up(plan, row, text, length, begin, end):
    """Locate the ids from ``begin`` to ``end``, a document's, by their lengths; whether that is possible."""
    ids = table(plan, PLAN_IDS, np.uint32)
    info = table(plan, PLAN_INFO, np.uint64)
    offsets = table(plan, PLAN_OFFSETS, np.int64)
    source = array_at(text, length, np.uint8)
    limit = len(info)
    in_bytes = field(plan, PLAN_IN_BYTES) != 0
    is_plain = row == 0
    trim = field(plan, PLAN_TRIM)
    base = np.int64(0)
    if row != 0:
        is_plain = field(row, ROW_SHIFT) == 0 and field(row, ROW_SOURCES) == 0
        base = field(row, ROW_BASE)
    position = np.int64(0)
    characters = np.int64(0)
    if is_plain and not in_bytes and trim == 0:
        characters = base
        for place in range(begin, end):
            number = np.int64(at(ids, place))
            word = np.int64(at(info, number)) if number < limit else np.int64(INFO_VARIES)
            if word & INFO_VARIES != 0:
                return False
            put(offsets, 2 * place, characters - (word >> INFO_INSIDE_SHIFT & 1))
            characters += word >> INFO_CHARACTERS_SHIFT & INFO_CHARACTERS
            put(offsets, 2 * place + 1, characters)
            position += word & INFO_LENGTH
        return position == length
    for place in range(begin, end):
        number = np.int64(at(ids, place))
        word = np.int64(at(info, number)) if number < limit else np.int64(INFO_VARIES)
        if word & INFO_VARIES != 0:
            return False
        start = position
        position += word & INFO_LENGTH
        stop = position
        first = characters - (word >> INFO_INSIDE_SHIFT & 1)
        characters += word >> INFO_CHARACTERS_SHIFT & INFO_CHARACTERS
        if is_plain and not in_bytes:
            _put_trimmed(offsets, place, first, characters, word, trim, place == begin)
            continue
        if stop > length:
            return False
        if word & (INFO_BEGINS_INSIDE | INFO_ENDS_INSIDE) != 0:
            while start > 0 and _is_inside(source, start):
                start -= 1
            while stop < length and _is_inside(source, stop):
                stop += 1
        if is_plain and trim != 0:
            _put_trimmed(offsets, place, start, stop, word, trim, place == begin)
            continue
        if is_plain:
            put(offsets, 2 * place, base + start)
            put(offsets, 2 * place + 1, base + stop)
            continue
        _put_span(plan, row, text, length, place, start, stop, first, characters)
    return position == length


@helper
def _put_bytes(plan, row, text, length, place, start, stop, known, count):
    """Put the offsets of a document's bytes ``start`` to ``stop``, widened to characters, for the id at ``place``.

    ``count`` first bytes of characters are before ``known``; returns the two for ``start``.
    """
    source = array_at(text, length, np.uint8)
    while start > 0 and _is_inside(source, start):
        start -= 1
    while stop < length and _is_inside(source, stop):
        stop += 1
    while known < start:
        count += not _is_inside(source, known)
        known += 1
    while known > start:
        known -= 1
        count -= not _is_inside(source, known)
    last = count
    for i in range(start, stop):
        last += not _is_inside(source, i)
    _put_span(plan, row, text, length, place, start, stop, count, last)
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
    """Locate the ids of the bytes from ``begin`` to ``end``; returns what :func:`_deal_units` does."""
    ids = table(plan, PLAN_IDS, np.uint32)
    info = table(plan, PLAN_INFO, np.uint64)
    position = begin
    while position < end and place < last_place:
        number = np.int64(at(ids, place))
        word = np.int64(at(info, number)) if number < len(info) else np.int64(INFO_VARIES)
        stop = min(position + _length_of(plan, number), end)
        if known == position and word & (INFO_VARIES | INFO_BEGINS_INSIDE | INFO_ENDS_INSIDE) == 0:
            following = count + (word >> INFO_CHARACTERS_SHIFT & INFO_CHARACTERS)
            _put_span(plan, row, text, length, place, position, stop, count, following)
            known, count = stop, following
        else:
            known, count = _put_bytes(plan, row, text, length, place, position, stop, known, count)
            while known < stop:
                count += not _is_inside(array_at(text, length, np.uint8), known)
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
        while start > begin and _is_inside(source, start):
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
def _number_word(words, begin, end, number):
    """Note of which word the ids from ``begin`` to ``end`` are, where that is asked for; returns the next number."""
    if len(words) > 0:
        for place in range(begin, end):
            put(words, place, np.int32(number))
    return number + 1


@helper
def _walk(view, work, plan, row, text, length, document, place, last_place):
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
            word = _number_word(words, place, place + 1, word)
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
                    word = _number_word(words, first, place, word)
                start = following
                if bits == ZERO:
                    break
                bits &= bits - ONE
        base = end
        reach = np.int64(CHUNK_BLOCKS)


@helper
def _forward(source, place, stop, count, in_bytes):
    """``count`` characters further, but not beyond ``stop``."""
    if not in_bytes:
        return min(place + count, stop)
    while count > 0 and place < stop:
        place += _width(at(source, place)) if place < len(source) else 1
        count -= 1
    return min(place, stop)


@helper
def _backward(source, place, start, count, in_bytes):
    """``count`` characters back, but not beyond ``start``; ``place`` where the text has not so many before it."""
    if not in_bytes:
        return max(place - count, start) if place >= count else place
    here = place
    while count > 0 and here > 0:
        here -= 1
        while 0 < here < len(source) and _is_inside(source, here):
            here -= 1
        count -= 1
    return max(here, start) if count == 0 else place


@helper
def _trim(plan, text, length, begin, end, trim):
    """Trim the offsets of the ids from ``begin`` to ``end``, those of one text; see :func:`trim_offsets`."""
    ids = table(plan, PLAN_IDS, np.uint32)
    counts = table(plan, PLAN_LENGTHS_OF, np.int64)
    offsets = table(plan, PLAN_OFFSETS, np.int64)
    source = array_at(text, length, np.uint8)
    notes = table(plan, PLAN_SPACES, np.int64)
    in_bytes = field(plan, PLAN_IN_BYTES) != 0
    noted = field(plan, PLAN_SPACES_USED)
    low, high = np.int64(0), noted
    while low < high:
        middle = (low + high) >> 1
        if at(notes, 3 * middle) < begin:
            low = middle + 1
        else:
            high = middle
    note = low
    for place in range(begin, end):
        before = behind_it = np.int64(0)
        if note < noted and at(notes, 3 * note) == place:
            before, behind_it = at(notes, 3 * note + 1), at(notes, 3 * note + 2)
            note += 1
        else:
            number = 3 * np.int64(at(ids, place))
            if number >= len(counts):
                continue
            before, behind_it = at(counts, number + 1), at(counts, number + 2)
            if before | behind_it == 0:
                continue
        start, stop = at(offsets, 2 * place), at(offsets, 2 * place + 1)
        if before > 0:
            if before == 1 and (
                (start == 0 and trim & TRIM_KEEPS_AT_START != 0) or (place == begin and trim & TRIM_KEEPS_FIRST != 0)
            ):
                before = np.int64(0)
            start = _forward(source, start, stop, before, in_bytes)
        if behind_it > 0:
            stop = _backward(source, stop, start, behind_it, in_bytes)
        put(offsets, 2 * place, start)
        put(offsets, 2 * place + 1, stop)


@kernel("int64(int64, int64)")
def locate_tokens(work, plan):
    """Offsets of all ids of documents, from document ``PLAN_FIRST`` on.

    Parameters
    ----------
    work : address of a scratch record whose actions are those that the documents were encoded with
    plan : address of the fields ``PLAN_...``

    Returns 0, or a NEED_ status with ``PLAN_FIRST`` set: the caller mends it and calls again; or MISPLACED.
    """
    view = field(work, WORK_VIEW)
    count = field(plan, PLAN_COUNT)
    texts = array_at(field(plan, PLAN_ADDRESSES), count, np.int64)
    sizes = array_at(field(plan, PLAN_LENGTHS), count, np.int64)
    ends = array_at(field(plan, PLAN_ENDS), count, np.int64)
    offsets = table(plan, PLAN_OFFSETS, np.int64)
    rows = field(plan, PLAN_ROWS)
    words = table(plan, PLAN_WORDS, np.int32)
    adds_up = field(plan, PLAN_ADDS_UP) != 0 and len(words) == 0
    for document in range(field(plan, PLAN_FIRST), count):
        begin = at(ends, document - 1) if document > 0 else np.int64(0)
        end = at(ends, document)
        row = rows + 8 * ROW_FIELDS * document if rows != 0 else np.int64(0)
        length = at(sizes, document)
        if length < 0:
            first = last = np.int64(0)
            if row != 0:
                first, last = field(row, ROW_BASE), field(row, ROW_STOP)
            for place in range(begin, end):
                put(offsets, 2 * place, first)
                put(offsets, 2 * place + 1, last)
            if len(words) > 0:
                put(
                    array_at(field(plan, PLAN_WORD_COUNTS), count, np.int64),
                    document,
                    _number_word(words, begin, end, np.int64(0)),
                )
            continue
        text = at(texts, document)
        if adds_up and _add_up(plan, row, text, length, begin, end):
            continue
        noted = field(plan, PLAN_SPACES_USED)
        status = _walk(view, work, plan, row, text, length, document, begin, end)
        if status != 0:
            set_field(plan, PLAN_SPACES_USED, noted)
            set_field(plan, PLAN_FIRST, document)
            return status
        trim = field(plan, PLAN_TRIM)
        if trim != 0:
            _trim(plan, text, length, begin, end, trim)
    return np.int64(0)


@kernel("int64(int64, int64, int64, int64)")
def trim_offsets(plan, groups, count, trim):
    """Leave white space at the ends of ids out of their offsets, as ``tokenizers`` does.

    Parameters
    ----------
    plan : address of the fields that :func:`locate_tokens` had; the rows of ``PLAN_SPACES`` rise by place
    groups : address of int64[count, 4], of each text: its first id, the one after the last, and the address and bytes
        of the UTF-8 that the offsets refer to
    trim : TRIM_ALL, and what is kept

    Returns ``count``.
    """
    fields = array_at(groups, 4 * count, np.int64)
    for group in range(count):
        begin, end = at(fields, 4 * group), at(fields, 4 * group + 1)
        _trim(plan, at(fields, 4 * group + 2), at(fields, 4 * group + 3), begin, end, trim)
    return count


@kernel("int64(int64, int64, int64, int64)")
def count_leads(text, length, places, count):
    """Turn ``count`` byte offsets (address of int64, rising) into the number of characters that begin before each.

    Returns the number of characters of the text.
    """
    source = array_at(text, length, np.uint8)
    wanted = array_at(places, count, np.int64)
    number = np.int64(0)
    done = np.int64(0)
    for i in range(count):
        place = min(at(wanted, i), length)
        while done < place:
            number += not _is_inside(source, done)
            done += 1
        put(wanted, i, number)
    while done < length:
        number += not _is_inside(source, done)
        done += 1
    return number
