"""From documents to ids: the loop that runs the four stages."""

import numpy as np

from numbatok.kernels.dtypes import (
    ADDED_REFUSED,
    ALL_ONES,
    AT_BEGINNING,
    CHUNK_BLOCKS,
    CHUNK_BYTES,
    DISALLOWED,
    DROPPED_KEY,
    GROUP,
    MOST_POSITION,
    NEED_ARENA,
    NEED_BITMAP,
    NEED_MERGE,
    NEED_OUTPUT,
    NOT_SEARCHED,
    ONE,
    OUTPUT_SLACK,
    TAIL_BYTES,
    TAIL_KEPT,
    TRIE_LEADS,
    U64,
    VIEW_ADDED_IDS,
    VIEW_CUTTER,
    VIEW_DROPS,
    VIEW_FINDER,
    VIEW_IDS_PER_BYTE,
    VIEW_KEYER,
    VIEW_LOOKER,
    VIEW_MERGER,
    VIEW_NORMALIZED_TRIE,
    VIEW_RAW_TRIE,
    VIEW_WALKER,
    WORK_ACTIONS,
    WORK_COUNT_ONLY,
    WORK_DOCUMENT,
    WORK_DONE,
    WORK_DROPPED,
    WORK_KEYS,
    WORK_MATCH,
    WORK_MERGED_BYTES,
    WORK_MISSES,
    WORK_NARROW_SHIFT,
    WORK_NEEDED,
    WORK_OUTPUT,
    WORK_OUTPUT_USED,
    WORK_PIECES,
    WORK_PLACES,
    WORK_POSITION,
    WORK_POSITIONS,
    WORK_RAW_MATCH,
    WORK_RESUME,
    WORK_SEGMENT,
    WORK_STARTS,
    WORK_SYMBOLS,
    WORK_TAIL,
    WORK_TRIES_OFF,
    WORK_VIEW,
    WORK_WIDE_SHIFT,
    ZERO,
)
from numbatok.kernels.intrinsics import (
    array_at,
    at,
    call_kernel,
    field,
    leading_zeros,
    put,
    set_field,
    table,
    trailing_zeros,
)
from numbatok.kernels.jit import helper, kernel
from numbatok.kernels.spans import flatten, place_of, wide_base_of
from numbatok.kernels.starts import keep_tail


@helper
def is_set(bitmap, bit):
    """Whether a bit of a bitmap is set."""
    return at(bitmap, bit >> 6) >> U64(bit & 63) & ONE != ZERO


@helper
def drop_keys(work, dropped, offset, begin, count):
    """Give the removed ones of a group of keyed pretokens the key of what has no ids.

    Pretoken j begins at bit ``offset + positions[begin + j]`` of the bitmap.
    """
    positions = table(work, WORK_POSITIONS, np.uint16)
    keys = table(work, WORK_KEYS, np.uint64)
    places = table(work, WORK_PLACES, np.int64)
    narrow_shift = U64(field(work, WORK_NARROW_SHIFT))
    wide_shift = U64(field(work, WORK_WIDE_SHIFT))
    place = place_of(DROPPED_KEY, ZERO, narrow_shift, wide_shift, wide_base_of(narrow_shift))
    for j in range(count):
        if is_set(dropped, offset + np.int64(at(positions, begin + j))):
            put(keys, 2 * j, DROPPED_KEY)
            put(keys, 2 * j + 1, ZERO)
            put(places, j, place)


@helper
def _encode_pretokens(view, work, text, length, base, offset, begin, count, used):
    """Key, then look up or merge, pretokens ``begin`` to ``count`` whose ends are in ``WORK_POSITIONS``, by groups.

    Pretoken j is ``text[base + positions[j] : base + positions[j + 1]]``; ``offset`` is the bit of ``base`` in the
    bitmaps. The output has room for all. Returns (status, pretokens done, used).
    """
    positions = table(work, WORK_POSITIONS, np.uint16)
    dropped = table(work, WORK_DROPPED, np.uint64)
    drops = field(view, VIEW_DROPS) != 0
    keyer = field(view, VIEW_KEYER)
    looker = field(view, VIEW_LOOKER)
    # A key is read 16 bytes at once: near the text's end from its padded copy.
    inside = count
    while inside > begin and base + np.int64(at(positions, inside - 1)) + 16 > length:
        inside -= 1
    tail_base = length - min(length, TAIL_KEPT)
    while begin < count:
        if begin < inside:
            group = min(GROUP, inside - begin)
            call_kernel(keyer, (work, text, length, base, begin, group))
        else:
            group = min(GROUP, count - begin)
            call_kernel(keyer, (work, field(work, WORK_TAIL), TAIL_BYTES, base - tail_base, begin, group))
        if drops:
            drop_keys(work, dropped, offset, begin, group)
        result = call_kernel(looker, (view, work, text, length, base, begin, group, used))
        if result < 0:
            return result, begin + field(work, WORK_DONE), field(work, WORK_OUTPUT_USED)
        used = result
        begin += group
    return np.int64(0), count, used


@helper
def last_start(starts, limit):
    """The last set bit at or before bit ``limit``; bit 0 is set."""
    block = limit >> 6
    bits = at(starts, block) & (ALL_ONES >> U64(63 - (limit & 63)))
    while bits == ZERO:
        block -= 1
        bits = at(starts, block)
    return 64 * block + 63 - np.int64(leading_zeros(bits))


@helper
def _next_start(starts, block, end):
    """The first set bit from ``block`` on that is before bit ``end``, or ``end``."""
    while 64 * block < end:
        bits = at(starts, block)
        if bits != ZERO:
            return min(64 * block + np.int64(trailing_zeros(bits)), end)
        block += 1
    return end


@helper
def encode_region(view, work, text, length, base, end, resume, used):
    """Encode ``text[base:end]``, which the bitmaps from ``base`` on cut into whole pretokens, from ``resume`` on.

    Returns (status, start of the first pretoken not put out, used). The bitmap is read by windows of a chunk.
    """
    starts = table(work, WORK_STARTS, np.uint64)
    dropped = table(work, WORK_DROPPED, np.uint64)
    positions = table(work, WORK_POSITIONS, np.uint16)
    output = table(work, WORK_OUTPUT, np.uint32)
    per_byte = field(view, VIEW_IDS_PER_BYTE)
    bits = end - base
    block = np.int64(0)
    if resume > base:
        block = (resume - base) >> 6
    while 64 * block < bits:
        offset = 64 * block
        window = min(CHUNK_BLOCKS, ((bits + 63) >> 6) - block)
        count = flatten(starts, block, window, positions)
        while count > 0 and offset + np.int64(at(positions, count - 1)) >= bits:
            count -= 1
        following = bits
        if offset + CHUNK_BYTES < bits:
            following = _next_start(starts, block + window, bits)
        begin = 0
        while begin < count and base + offset + np.int64(at(positions, begin)) < resume:
            begin += 1
        reaches = following - offset <= MOST_POSITION
        inside = count if reaches else count - 1
        if reaches:
            put(positions, count, np.uint16(following - offset))
        if begin < inside:
            # Ids are stored several at once, and counted after: hence the slack.
            size = per_byte * (np.int64(at(positions, inside)) - np.int64(at(positions, begin)))
            if used + size + OUTPUT_SLACK > len(output):
                set_field(work, WORK_NEEDED, used + size + OUTPUT_SLACK)
                return np.int64(NEED_OUTPUT), base + offset + np.int64(at(positions, begin)), used
            status, done, used = _encode_pretokens(view, work, text, length, base + offset, offset, begin, inside, used)
            set_field(work, WORK_PIECES, field(work, WORK_PIECES) + done - begin)
            if status != 0:
                at_piece = np.int64(at(positions, done))
                size = per_byte * (np.int64(at(positions, done + 1)) - at_piece)
                if status == NEED_MERGE:
                    set_field(work, WORK_NEEDED, size)
                elif status == NEED_ARENA:
                    set_field(work, WORK_NEEDED, 2 * size)
                return status, base + offset + at_piece, used
        if inside < count and begin < count:
            # The last pretoken of the window reaches far beyond it.
            start = offset + np.int64(at(positions, inside))
            size = following - start
            if field(view, VIEW_DROPS) == 0 or not is_set(dropped, start):
                if used + per_byte * size > len(output):
                    set_field(work, WORK_NEEDED, used + per_byte * size)
                    return np.int64(NEED_OUTPUT), base + start, used
                made = call_kernel(field(view, VIEW_MERGER), (view, work, text + base + start, size))
                if made < 0:
                    set_field(work, WORK_NEEDED, per_byte * size)
                    return made, base + start, used
                symbols = table(work, WORK_SYMBOLS, np.uint32)
                for i in range(made):
                    put(output, used + i, at(symbols, i))
                used += made
                set_field(work, WORK_MISSES, field(work, WORK_MISSES) + 1)
                set_field(work, WORK_MERGED_BYTES, field(work, WORK_MERGED_BYTES) + size)
            set_field(work, WORK_PIECES, field(work, WORK_PIECES) + 1)
        block = following >> 6 if following < bits else (bits + 63) >> 6
        if following < bits:
            resume = max(resume, base + following)
    return np.int64(0), end, used


@helper
def find_added(view, work, match, text, length, segment, floor, begin, limit):
    """Search ``text[begin:limit]`` for an added token, and note it at ``match``: WORK_RAW_MATCH or WORK_MATCH."""
    trie = view + 8 * (VIEW_RAW_TRIE if match == WORK_RAW_MATCH else VIEW_NORMALIZED_TRIE)
    token = np.int64(-1)
    if begin < limit and field(trie, TRIE_LEADS) != 0:
        token = call_kernel(
            field(view, VIEW_FINDER), (view, work, trie, work + 8 * match, text, length, segment, floor, begin, limit)
        )
    set_field(work, match, token)


@helper
def _encode_document(view, work, text, length, position, used, total):
    """Encode ``text[position:length]``; returns (status, position reached, used, total).

    After a status the position is where a scan of the split rule stands, and ``WORK_RESUME`` says up to where the
    pretokens from there on are put out.
    """
    starts = table(work, WORK_STARTS, np.uint64)
    output = table(work, WORK_OUTPUT, np.uint32)
    actions = table(work, WORK_ACTIONS, np.uint8)
    walker = field(view, VIEW_WALKER)
    cutter = field(view, VIEW_CUTTER)
    count_only = field(work, WORK_COUNT_ONLY) != 0
    base = position
    resume = field(work, WORK_RESUME)
    reach = CHUNK_BLOCKS  # grows while a pretoken reaches further
    while True:
        # The segment up to the next raw added token, in it the text up to the next of the others.
        if field(work, WORK_RAW_MATCH) == NOT_SEARCHED:
            begin = field(work, WORK_RAW_MATCH + 3)
            limit = begin if field(work, WORK_TRIES_OFF) >= 1 else length
            find_added(view, work, WORK_RAW_MATCH, text, length, np.int64(0), base, begin, limit)
        segment_end = length
        if field(work, WORK_RAW_MATCH) >= 0:
            segment_end = max(field(work, WORK_RAW_MATCH + 1), base)
        if field(work, WORK_MATCH) == NOT_SEARCHED:
            begin = field(work, WORK_MATCH + 3)
            limit = begin if field(work, WORK_TRIES_OFF) >= 2 else segment_end
            find_added(view, work, WORK_MATCH, text, length, field(work, WORK_SEGMENT), base, begin, limit)
        match = WORK_MATCH if field(work, WORK_MATCH) >= 0 else WORK_RAW_MATCH
        token = field(work, match)
        stop = length
        if token >= 0:
            stop = max(field(work, match + 1), base)
            if at(actions, token) == ADDED_REFUSED:
                set_field(work, WORK_NEEDED, token)
                return np.int64(DISALLOWED), stop, used, total
        if count_only:
            total += used
            used = np.int64(0)
        if base == stop:
            if token < 0:
                return np.int64(0), base, used, total
            if used >= len(output):
                set_field(work, WORK_NEEDED, used + 1)
                set_field(work, WORK_RESUME, resume)
                return np.int64(NEED_OUTPUT), base, used, total
            put(output, used, at(table(view, VIEW_ADDED_IDS, np.uint32), token))
            used += 1
            base = field(work, match + 2)
            resume = base
            set_field(work, match, NOT_SEARCHED)
            if match == WORK_RAW_MATCH:
                set_field(work, WORK_SEGMENT, base)
                set_field(work, WORK_MATCH, NOT_SEARCHED)
                set_field(work, WORK_MATCH + 3, base)
            continue

        # Stage 1, and where the walk ended: the last start may begin a pretoken that goes on.
        blocks = min((stop - base + 63) >> 6, reach)
        if blocks >= len(starts):
            set_field(work, WORK_NEEDED, blocks + 1)
            set_field(work, WORK_RESUME, resume)
            return np.int64(NEED_BITMAP), base, used, total
        decided = call_kernel(walker, (view, work, text, length, base, stop, blocks))
        if decided < 0:
            set_field(work, WORK_RESUME, resume)
            return decided, base, used, total
        end = stop
        if decided < stop:
            end = base + last_start(starts, min(decided - base, 64 * blocks - 1))
            if end == base:
                reach *= 4
                continue
        if cutter != 0:
            call_kernel(cutter, (view, work, text, length, base, end))
        # Stages 2 to 4.
        status, resume, used = encode_region(view, work, text, length, base, end, resume, used)
        if status != 0:
            set_field(work, WORK_RESUME, resume)
            return status, base, used, total
        base = end
        resume = end
        reach = CHUNK_BLOCKS


@helper
def _put_block(work, ids, count, used):
    """Copy ``count`` ids at address ``ids`` to the output; returns the new ``used``, or NEED_OUTPUT."""
    output = table(work, WORK_OUTPUT, np.uint32)
    block = array_at(ids, count, np.uint32)
    if used + count > len(output):
        set_field(work, WORK_NEEDED, used + count)
        return np.int64(NEED_OUTPUT)
    for i in range(count):
        put(output, used + i, at(block, i))
    return used + count


@kernel("int64(int64, int64, int64, int64, int64)")
def encode_documents(work, addresses, lengths, ends, count):
    """Encode ``count`` documents one after the other, from where the scratch says, into its output.

    Parameters
    ----------
    work : address of a scratch record
    addresses, lengths : addresses of int64[count]: where each document's UTF-8 is, and its bytes; a negative length
        stands for as many uint32 ids, which are put out as they are: those of a template, or of an added token
    ends : address of int64[count]: set to the number of ids of this document and all before

    Returns the number of ids in all, or a status with ``WORK_DOCUMENT``, ``WORK_POSITION``, ``WORK_RESUME`` and
    ``WORK_OUTPUT_USED`` telling where to resume: the caller mends what the status names and calls again with the same
    arguments.
    """
    view = field(work, WORK_VIEW)
    texts = array_at(addresses, count, np.int64)
    sizes = array_at(lengths, count, np.int64)
    counts = array_at(ends, count, np.int64)
    position = field(work, WORK_POSITION)
    used = field(work, WORK_OUTPUT_USED)
    first = field(work, WORK_DOCUMENT)
    total = np.int64(0)
    if field(work, WORK_COUNT_ONLY) != 0:
        total = used
        used = np.int64(0)
    for document in range(first, count):
        text = at(texts, document)
        length = at(sizes, document)
        if length < 0:
            status = _put_block(work, text, -length, used)
            if status >= 0:
                used = status
                status = np.int64(0)
        else:
            if document > first or position == AT_BEGINNING:
                position = np.int64(0)
                set_field(work, WORK_RESUME, 0)
                set_field(work, WORK_SEGMENT, 0)
                for match in (WORK_RAW_MATCH, WORK_MATCH):
                    set_field(work, match, NOT_SEARCHED)
                    set_field(work, match + 3, 0)
            keep_tail(work, text, length)
            status, position, used, total = _encode_document(view, work, text, length, position, used, total)
        if status != 0:
            set_field(work, WORK_DOCUMENT, document)
            set_field(work, WORK_POSITION, position)
            set_field(work, WORK_OUTPUT_USED, total + used)
            return status
        put(counts, document, total + used)
        position = np.int64(AT_BEGINNING)
    return total + used


@kernel("int64(int64, int64, int64, int64, int64, int64)")
def split_text(work, text, length, position, boundaries, capacity):
    """Write the byte offsets where pretokens begin, from ``position`` on, and at last ``length``, as int64.

    ``position`` is where a pretoken begins. Returns how many boundaries, or NEED_OUTPUT where ``capacity`` is below
    ``length - position + 1``, or NEED_BITMAP with ``WORK_NEEDED`` set.
    """
    output = array_at(boundaries, capacity, np.int64)
    starts = table(work, WORK_STARTS, np.uint64)
    walker = field(field(work, WORK_VIEW), VIEW_WALKER)
    keep_tail(work, text, length)
    reach = CHUNK_BLOCKS
    base = position
    used = np.int64(0)
    while base < length:
        blocks = min((length - base + 63) >> 6, reach)
        if blocks >= len(starts):
            set_field(work, WORK_NEEDED, blocks + 1)
            return np.int64(NEED_BITMAP)
        decided = call_kernel(walker, (field(work, WORK_VIEW), work, text, length, base, length, blocks))
        if decided < 0:
            return decided
        last = base
        for block in range(blocks):
            bits = at(starts, block)
            while bits != ZERO:
                start = base + 64 * block + np.int64(trailing_zeros(bits))
                bits &= bits - ONE
                if start > decided:
                    break
                if used >= capacity:
                    return np.int64(NEED_OUTPUT)
                put(output, used, start)
                used += 1
                last = start
        if decided == length:
            base = length
        elif last == base:
            used -= 1
            reach *= 4
        else:
            used -= 1
            base = last
            reach = CHUNK_BLOCKS
    if used >= capacity:
        return np.int64(NEED_OUTPUT)
    put(output, used, length)
    return used + 1
