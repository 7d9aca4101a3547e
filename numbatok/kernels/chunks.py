"""A text cut into chunks of at most so many tokens: its ids with the places of its pieces, and the cuts.

Of a part of the text, a *block*, the ids are known, and a bitmap of where its pieces begin. A record tells where these
are (``BLOCK_...``). Where the tokens end is added up as it is asked for, from points a few hundred bytes apart. Where
sentences, lines and paragraphs end is looked for where a chunk has to; to list all places took a quarter of a count.
"""

import numpy as np

from numbatok.kernels.dtypes import ALL_ONES, ONE, TRACE_STEP, U64, VIEW_COARSE, WORK_STARTS, WORK_VIEW, ZERO
from numbatok.kernels.intrinsics import array_at, at, field, leading_zeros, put, table, trailing_zeros
from numbatok.kernels.intrinsics_vector import equal_to
from numbatok.kernels.jit import helper, kernel
from numbatok.kernels.pieces import walk_all
from numbatok.kernels.starts import is_set, last_start

PIECES, SENTENCES, LINES, PARAGRAPHS = range(4)
NEAR = 64  # bytes from a chunk's end beyond which its pieces are taken to be settled

# Fields of a block.
BLOCK_TEXT = 0  # address of the text
BLOCK_BEGIN = 1  # byte offset in it where the block begins
BLOCK_STOP = 2  # ... and where it ends: there a piece begins, or the text ends
BLOCK_IS_LAST = 3  # 1 where the text ends there
BLOCK_IDS = 4  # uint32
BLOCK_SIZES = 6  # address of int32: the bytes of each id
BLOCK_POINTS = 7  # int64[2 * points]: byte offsets from the begin on where pieces begin, and the ids before each
BLOCK_BITMAP = 9  # uint64: a bit for each byte from the begin on, set where a piece begins
BLOCK_LEVEL = 11  # the coarsest: PIECES to PARAGRAPHS
BLOCK_LENGTH = 12  # bytes of the text
BLOCK_ADDED = 13  # address of uint8: whether each id is an added token
BLOCK_FIELDS = 14

POINT_PLACE, POINT_IDS = range(2)

# What is told of a chunk.
CHUNK_BEGIN, CHUNK_END, CHUNK_FOLLOWING, CHUNK_FIRST, CHUNK_LAST, CHUNK_TOKENS, CHUNK_FIELDS = range(7)


@helper
def _point_before(block, value, column, near):
    """The last point of a block whose column is at most a value, or the first one; ``near`` is one to begin at."""
    points = table(block, BLOCK_POINTS, np.int64)
    count = len(points) >> 1
    low, high, step = near, near + 1, np.int64(1)
    if at(points, 2 * near + column) <= value:
        while high < count and at(points, 2 * high + column) <= value:
            low = high
            step <<= 1
            high = low + step
        high = min(high, count)
    else:
        high = near
        low = near - 1
        while low > 0 and at(points, 2 * low + column) > value:
            high = low
            step <<= 1
            low = high - step
        low = max(low, 0)
    while high - low > 1:
        middle = (low + high) >> 1
        if at(points, 2 * middle + column) <= value:
            low = middle
        else:
            high = middle
    return low


@helper
def _place_after(block, count, near):
    """(place, point): where the first ``count`` tokens of a block end, and the last point before."""
    ids = table(block, BLOCK_IDS, np.uint32)
    points = table(block, BLOCK_POINTS, np.int64)
    sizes = array_at(field(block, BLOCK_SIZES), np.int64(1) << 32, np.int32)
    near = _point_before(block, count, POINT_IDS, near)
    total = np.int32(0)  # in 64 bits it takes twice as long
    for i in range(at(points, 2 * near + POINT_IDS), count):
        total += at(sizes, np.int64(at(ids, i)))
    return field(block, BLOCK_BEGIN) + at(points, 2 * near) + np.int64(total), near


@helper
def _tokens_before(block, place, near):
    """How many tokens of a block end at or before a place; ``near`` is a point to begin at."""
    ids = table(block, BLOCK_IDS, np.uint32)
    points = table(block, BLOCK_POINTS, np.int64)
    sizes = array_at(field(block, BLOCK_SIZES), np.int64(1) << 32, np.int32)
    origin = field(block, BLOCK_BEGIN)
    near = _point_before(block, place - origin, POINT_PLACE, near)
    end = origin + at(points, 2 * near)
    count = at(points, 2 * near + POINT_IDS)
    while count < len(ids):
        end += np.int64(at(sizes, np.int64(at(ids, count))))
        if end > place:
            break
        count += 1
    return count


@helper
def _tokens_up_to(block, place, end, count, near):
    """:func:`_tokens_before`, where ``count`` of them end at ``end``, at or after the place."""
    if end - place > TRACE_STEP:
        return _tokens_before(block, place, near)
    ids = table(block, BLOCK_IDS, np.uint32)
    sizes = array_at(field(block, BLOCK_SIZES), np.int64(1) << 32, np.int32)
    while end > place:
        count -= 1
        end -= np.int64(at(sizes, np.int64(at(ids, count))))
    return count


@kernel("int64(int64, int64)")
def tokens_before(block, place):
    """How many tokens of a block, at the address ``block``, end at or before a byte offset."""
    return _tokens_before(block, place, np.int64(0))


@helper
def _start_after(bitmap, bit, stop):
    """The first set bit from ``bit`` on that is before bit ``stop``, or ``stop``."""
    while bit < stop:
        bits = at(bitmap, bit >> 6) >> U64(bit & 63)
        if bits != ZERO:
            return min(bit + np.int64(trailing_zeros(bits)), stop)
        bit = ((bit >> 6) + 1) << 6
    return stop


@helper
def _starts_in(bitmap, bit, width):
    """The bits of a bitmap from ``bit`` on as a word, of which the lowest ``width``, or all 64, are meant."""
    word, shift = bit >> 6, U64(bit & 63)
    bits = at(bitmap, word) >> shift
    if shift > ZERO:
        bits |= at(bitmap, word + 1) << (U64(64) - shift)
    return bits if width >= 64 else bits & ((ONE << U64(width)) - ONE)


@helper
def _alike(work, block, bit, width):
    """How many of the ``width`` bytes of a block from ``bit`` on have the same starts by themselves, up to the first
    that has not.
    """
    bitmap = table(block, BLOCK_BITMAP, np.uint64)
    starts = table(work, WORK_STARTS, np.uint64)
    blocks = (width + 63) >> 6
    if walk_all(work, field(block, BLOCK_TEXT) + field(block, BLOCK_BEGIN) + bit, width, blocks) < 0:
        return np.int64(0)
    for word in range(blocks):
        rest = width - 64 * word
        differ = _starts_in(bitmap, bit + 64 * word, rest) ^ _starts_in(starts, 64 * word, rest)
        if differ != ZERO:
            return 64 * word + np.int64(trailing_zeros(differ))
    return width


@helper
def _end_settled(work, block, begin, end):
    """Up to where a chunk that ends at ``end`` has the block's pieces, if it has them at ``begin``.

    It has them up to a few before its end. Those are walked anew, as the text ends after them: where they are the same,
    so are all tokens.
    """
    bitmap = table(block, BLOCK_BITMAP, np.uint64)
    origin = field(block, BLOCK_BEGIN)
    limit = end - NEAR - origin
    if limit <= begin - origin:
        return begin
    bit = last_start(bitmap, limit)
    for _ in range(2):
        if bit > 0:
            bit = last_start(bitmap, bit - 1)
    if origin + bit <= begin:
        return begin
    width = end - origin - bit
    same = _alike(work, block, bit, width)
    if same == width and (end == field(block, BLOCK_STOP) or is_set(bitmap, end - origin)):
        return end
    return origin + last_start(bitmap, bit + max(same - 1, 0))


@helper
def _has_added(block, token, size):
    """Whether an added token is among those from number ``token`` on, one at least, that make up ``size`` bytes."""
    ids = table(block, BLOCK_IDS, np.uint32)
    sizes = array_at(field(block, BLOCK_SIZES), np.int64(1) << 32, np.int32)
    is_added = array_at(field(block, BLOCK_ADDED), np.int64(1) << 32, np.uint8)
    while token < len(ids) and size >= 0:
        if at(is_added, np.int64(at(ids, token))) != 0:
            return True
        size -= np.int64(at(sizes, np.int64(at(ids, token))))
        token += 1
    return False


@helper
def _begin_settled(work, block, begin, end, before):
    """The first place from which on a chunk has the block's pieces, where it can be counted in two parts; or ``end``.

    That is ``begin`` if a piece begins there. Else the chunk's pieces are walked until one begins with one of the
    block's, if those before it are the same as if the text ended there. ``before`` tokens end at or before ``begin``.
    """
    bitmap = table(block, BLOCK_BITMAP, np.uint64)
    starts = table(work, WORK_STARTS, np.uint64)
    bit = begin - field(block, BLOCK_BEGIN)
    if is_set(bitmap, bit):
        return begin
    length = field(block, BLOCK_LENGTH) - begin
    # What the added tokens around are is not asked here: there are none. A text that ends soon would decide, too.
    if end - begin < 4 * NEAR or _has_added(block, before, 4 * NEAR):
        return end
    text = field(block, BLOCK_TEXT) + begin
    if walk_all(work, text, length, np.int64(2)) < 2 * NEAR:
        return end
    first, second = at(starts, 0), at(starts, 1)
    both_first = first & _starts_in(bitmap, bit, np.int64(64))
    both_second = second & _starts_in(bitmap, bit + 64, np.int64(64))
    for _ in range(4):
        if both_first != ZERO:
            width = np.int64(trailing_zeros(both_first))
            both_first &= both_first - ONE
        elif both_second != ZERO:
            width = 64 + np.int64(trailing_zeros(both_second))
            both_second &= both_second - ONE
        else:
            break
        if walk_all(work, text, width, (width + 63) >> 6) < 0:
            break
        differ = first ^ at(starts, 0)
        if width < 64:
            differ &= (ONE << U64(width)) - ONE
        elif width > 64:
            differ |= _starts_in(starts, np.int64(64), width - 64) ^ (second & ((ONE << U64(width - 64)) - ONE))
        if differ == ZERO:
            return begin + width
    return end


@helper
def _byte_at(source, place):
    """The byte at a place, or a space behind the text's end."""
    return np.int64(at(source, place)) if place < len(source) else np.int64(32)


@helper
def _is_space(byte):
    return byte == 32 or 9 <= byte <= 13


@helper
def _ends_paragraph(source, place):
    """Whether the line feed at a place ends the last of one or more empty lines, which are not the text's first."""
    before = place - 1
    while before >= 0 and at(source, before) != 10 and _is_space(at(source, before)):
        before -= 1
    if before < 0 or at(source, before) != 10:
        return False
    after = place + 1
    while after < len(source) and at(source, after) != 10 and _is_space(at(source, after)):
        after += 1
    return after == len(source) or at(source, after) != 10


@helper
def _cut_at(source, place, level):
    """Where a text may be cut because of the byte at a place: behind a line end, or a sentence's last sign; or -1."""
    byte = _byte_at(source, place)
    if byte == 10:
        return place + 1 if level != PARAGRAPHS or _ends_paragraph(source, place) else np.int64(-1)
    if level != SENTENCES:
        return np.int64(-1)
    if byte == 33 or byte == 46 or byte == 63:  # ! . ?
        following = _byte_at(source, place + 1)
        end = place + 1
        if following == 34 or following == 39 or following == 41 or following == 93:  # " ' ) ]
            following = _byte_at(source, place + 2)
            end += 1
        return end if _is_space(following) else np.int64(-1)
    second = _byte_at(source, place + 1)
    third = _byte_at(source, place + 2)
    if byte == 0xE3 and second == 0x80 and third == 0x82:  # U+3002
        return place + 3
    if byte == 0xEF and second == 0xBC and (third == 0x81 or third == 0x9F):  # U+FF01, U+FF1F
        return place + 3
    return np.int64(-1)


@helper
def _signs(text, length, block, level):
    """Which of the 64 bytes of a text from ``block`` on may end something; all where it does not have them all."""
    if block < 0 or block + 64 > length:
        return ALL_ONES
    address = text + block
    found = equal_to(address, 10)
    if level == SENTENCES:
        found |= equal_to(address, 33) | equal_to(address, 46) | equal_to(address, 63)
        found |= equal_to(address, 0xE3) | equal_to(address, 0xEF)
    return found


@helper
def _first_cut(text, length, begin, end, level):
    """The first place after ``begin`` and up to ``end`` where a text may be cut, or -1."""
    source = array_at(text, length, np.uint8)
    block = max(begin - 2, 0)  # a sign's bytes may be behind ``begin``
    while block < end:
        found = _signs(text, length, block, level)
        while found != ZERO:
            place = block + np.int64(trailing_zeros(found))
            found &= found - ONE
            if place >= end:
                break
            cut = _cut_at(source, place, level)
            if begin < cut <= end:
                return cut
        block += 64
    return np.int64(-1)


@helper
def _last_cut(text, length, begin, end, level):
    """The last place after ``begin`` and up to ``end`` where a text may be cut, or -1."""
    source = array_at(text, length, np.uint8)
    least = max(begin - 2, 0)
    stop = end
    while stop > least:
        found = _signs(text, length, stop - 64, level)
        while found != ZERO:
            bit = 63 - np.int64(leading_zeros(found))
            found &= ~(ONE << U64(bit))
            place = stop - 64 + bit
            if place < least:
                break
            cut = _cut_at(source, place, level)
            if begin < cut <= end:
                return cut
        stop -= 64
    return np.int64(-1)


@kernel("int64(int64, int64, int64, int64)")
def list_cuts(text, length, level, output):
    """Write the byte offsets in a text where sentences, lines or paragraphs end; return how many.

    Parameters
    ----------
    text, length : address of a text, and its bytes
    level : LINES, behind each line feed; PARAGRAPHS, behind the last of several that white space alone is between;
        SENTENCES, at the ends of lines and behind ``.``, ``!`` and ``?`` before white space, with one quotation mark or
        bracket between at most, and behind the CJK signs for these
    output : address of int64[length]
    """
    places = array_at(output, length, np.int64)
    used = np.int64(0)
    place = _first_cut(text, length, np.int64(0), length, level)
    while place >= 0:
        put(places, used, place)
        used += 1
        place = _first_cut(text, length, place, length, level)
    return used


@kernel("int64(int64, int64, int64, int64, int64, int64, int64, int64)")
def cut_by_budget(work, block, begin, done, budget, overlap, output, most):
    """Cut a block into ``most`` chunks, or fewer, of at most ``budget`` tokens, each as long as it can be.

    Parameters
    ----------
    work : address of a scratch record
    block : address of the fields ``BLOCK_...``. A finer level is asked where a coarser has no place within the budget;
        unless the block is the text's last one no chunk is made that may have more tokens than are known.
    begin : where the first chunk begins
    done : up to where the text is covered; the first chunk ends after it
    overlap : most tokens of a chunk that the next one repeats, from a place of the level on that it was cut at
    output : address of int64[most, CHUNK_FIELDS], set to begin, end and the next one's begin of each chunk, and
        to the places from which and up to which the block's tokens are its own, and how many these are

    Returns how many chunks. They end where no further one can be cut: at the end, or before a stretch without places.
    """
    tokens = field(block, BLOCK_IDS + 1)
    bitmap = table(block, BLOCK_BITMAP, np.uint64)
    origin = field(block, BLOCK_BEGIN)
    stop = field(block, BLOCK_STOP)
    is_last = field(block, BLOCK_IS_LAST) != 0
    text, length = field(block, BLOCK_TEXT), field(block, BLOCK_LENGTH)
    any_start = field(field(work, WORK_VIEW), VIEW_COARSE) == 0  # else nothing is the block's for sure
    chunks = array_at(output, CHUNK_FIELDS * most, np.int64)
    used = np.int64(0)
    near = np.int64(0)  # a point not far before the next chunk's begin
    before = _tokens_before(block, begin, near)
    while used < most and tokens > 0:
        if before + budget > tokens and not is_last:
            break
        end = stop
        level = field(block, BLOCK_LEVEL)
        limit, most_tokens = stop, tokens
        if before + budget < tokens or not is_last:
            most_tokens = before + budget
            limit, near = _place_after(block, most_tokens, near)
            end = np.int64(-1)
            while level > PIECES:
                end = _last_cut(text, length, done, limit, level)
                if end >= 0:
                    break
                level -= 1
            if level == PIECES:
                end = origin + last_start(bitmap, limit - origin)
        if end <= done:
            break
        tokens_there = _tokens_up_to(block, end, limit, most_tokens, near)
        following = end
        if overlap > 0 and end < stop:
            back = tokens_there - overlap
            floor = begin
            if back > 0:
                place, _ = _place_after(block, back, near)
                floor = max(place - 1, begin)
            if level > PIECES:
                place = _first_cut(text, length, floor, end, level)
                if place >= 0:
                    following = place
            else:
                following = origin + _start_after(bitmap, floor + 1 - origin, end - origin)
        first = last = begin
        known = np.int64(0)
        if any_start:
            first = _begin_settled(work, block, begin, end, before)
            last = _end_settled(work, block, first, end)
        if last > first:
            known = _tokens_up_to(block, last, end, tokens_there, near)
            known -= before if first == begin else _tokens_before(block, first, near)
        else:
            first = last = begin
        chunk = CHUNK_FIELDS * used
        put(chunks, chunk + CHUNK_BEGIN, begin)
        put(chunks, chunk + CHUNK_END, end)
        put(chunks, chunk + CHUNK_FOLLOWING, following)
        put(chunks, chunk + CHUNK_FIRST, first)
        put(chunks, chunk + CHUNK_LAST, last)
        put(chunks, chunk + CHUNK_TOKENS, known)
        used += 1
        if is_last and end >= stop:
            break
        before = tokens_there if following == end else _tokens_before(block, following, near)
        begin = following
        done = end
    return used
