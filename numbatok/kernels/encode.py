"""From documents to ids: the loop that runs the four stages."""

import numpy as np

from numbatok.kernels.added import next_added_token
from numbatok.kernels.dtypes import (
    ADDED_REFUSED,
    CHUNK_BLOCKS,
    DISALLOWED,
    GROUP,
    NEED_ARENA,
    NEED_BITMAP,
    NEED_MERGE,
    NEED_OUTPUT,
    ONE,
    OUTPUT_SLACK,
    TAIL_BYTES,
    TAIL_KEPT,
    VIEW_ADDED_IDS,
    VIEW_ADDED_LEADS,
    VIEW_IDS_PER_BYTE,
    VIEW_KEYER,
    VIEW_LOOKER,
    VIEW_MERGER,
    VIEW_WALKER,
    WORK_ACTIONS,
    WORK_COUNT_ONLY,
    WORK_DOCUMENT,
    WORK_DONE,
    WORK_MERGED_BYTES,
    WORK_MISSES,
    WORK_NEEDED,
    WORK_OUTPUT,
    WORK_OUTPUT_USED,
    WORK_PIECES,
    WORK_POSITION,
    WORK_POSITIONS,
    WORK_STARTS,
    WORK_SYMBOLS,
    WORK_TAIL,
    WORK_VIEW,
    ZERO,
)
from numbatok.kernels.intrinsics import (
    array_at,
    at,
    call_kernel,
    field,
    put,
    set_field,
    table,
    trailing_zeros,
)
from numbatok.kernels.jit import helper, kernel
from numbatok.kernels.spans import flatten
from numbatok.kernels.starts import keep_tail


@helper
def _encode_pretokens(view, work, text, length, base, count, used):
    """Key, then look up or merge, the ``count`` pretokens whose ends are in ``WORK_POSITIONS``, a group at a time.

    Pretoken j is ``text[base + positions[j] : base + positions[j + 1]]``. The output has room for all. Returns (status,
    pretokens done, used).
    """
    positions = table(work, WORK_POSITIONS, np.uint16)
    keyer = field(view, VIEW_KEYER)
    looker = field(view, VIEW_LOOKER)
    # A key is read 16 bytes at once: near the text's end from its padded copy.
    inside = count
    while inside > 0 and base + np.int64(at(positions, inside - 1)) + 16 > length:
        inside -= 1
    tail_base = length - min(length, TAIL_KEPT)
    begin = 0
    while begin < count:
        if begin < inside:
            group = min(GROUP, inside - begin)
            call_kernel(keyer, (work, text, length, base, begin, group))
        else:
            group = min(GROUP, count - begin)
            call_kernel(keyer, (work, field(work, WORK_TAIL), TAIL_BYTES, base - tail_base, begin, group))
        result = call_kernel(looker, (view, work, text, length, base, begin, group, used))
        if result < 0:
            return result, begin + field(work, WORK_DONE), field(work, WORK_OUTPUT_USED)
        used = result
        begin += group
    return np.int64(0), count, used


@helper
def _first_start(starts, blocks):
    """Position of the first set bit after bit 0, or -1."""
    for block in range(blocks):
        bits = at(starts, block)
        if block == 0:
            bits &= ~ONE
        if bits != ZERO:
            return 64 * block + np.int64(trailing_zeros(bits))
    return np.int64(-1)


@helper
def _encode_document(view, work, text, length, position, used, total):
    """Encode ``text[position:length]``; returns (status, position reached, used, total)."""
    starts = table(work, WORK_STARTS, np.uint64)
    positions = table(work, WORK_POSITIONS, np.uint16)
    output = table(work, WORK_OUTPUT, np.uint32)
    symbols = table(work, WORK_SYMBOLS, np.uint32)
    walker = field(view, VIEW_WALKER)
    merger = field(view, VIEW_MERGER)
    per_byte = field(view, VIEW_IDS_PER_BYTE)
    count_only = field(work, WORK_COUNT_ONLY) != 0
    base = position
    reach = CHUNK_BLOCKS  # grows while a pretoken reaches further
    scanned = base if field(view, VIEW_ADDED_LEADS) != 0 else length  # no added token begins before it
    added = np.int64(-1)
    added_start = added_end = length
    while True:
        # The text up to an added token, or as far as none was found, at least one reach ahead.
        ahead = min(base + 64 * reach, length)
        if added < 0 and scanned < ahead:
            added, added_start, added_end = next_added_token(view, work, text, length, scanned, ahead)
            scanned = added_start
            if added >= 0 and at(table(work, WORK_ACTIONS, np.uint8), added) == ADDED_REFUSED:
                set_field(work, WORK_NEEDED, added)
                return np.int64(DISALLOWED), added_start, used, total
        stop = scanned if added < 0 else added_start
        final = added >= 0 or scanned == length
        if count_only:
            total += used
            used = np.int64(0)
        if base == stop and final:
            if added < 0:
                return np.int64(0), base, used, total
            if used >= len(output):
                set_field(work, WORK_NEEDED, used + 1)
                return np.int64(NEED_OUTPUT), base, used, total
            put(output, used, at(table(view, VIEW_ADDED_IDS, np.uint32), added))
            used += 1
            base = added_end
            scanned = base
            added = np.int64(-1)
            continue

        # Stage 1, and where the walk ended: the last start may begin a pretoken that goes on.
        blocks = min((stop - base + 63) >> 6, reach)
        if blocks > len(starts):
            set_field(work, WORK_NEEDED, blocks)
            return np.int64(NEED_BITMAP), base, used, total
        # A character may cross the place up to which added tokens were looked for: the walker must see all of it.
        limit = stop if final else length
        decided = call_kernel(walker, (view, work, text, length, base, limit, blocks))
        at_end = final and decided == stop
        if blocks > CHUNK_BLOCKS:
            # One pretoken longer than a chunk: its end is all that is of interest.
            first = _first_start(starts, blocks)
            end = stop if first < 0 and at_end else base + first
            if (first < 0 and not at_end) or end > decided:
                reach *= 4
                continue
            size = end - base
            if used + per_byte * size > len(output):
                set_field(work, WORK_NEEDED, used + per_byte * size)
                return np.int64(NEED_OUTPUT), base, used, total
            made = call_kernel(merger, (view, work, text + base, size))
            if made < 0:
                set_field(work, WORK_NEEDED, per_byte * size)
                return made, base, used, total
            for i in range(made):
                put(output, used + i, at(symbols, i))
            used += made
            set_field(work, WORK_PIECES, field(work, WORK_PIECES) + 1)
            set_field(work, WORK_MISSES, field(work, WORK_MISSES) + 1)
            set_field(work, WORK_MERGED_BYTES, field(work, WORK_MERGED_BYTES) + size)
            base = end
            reach = CHUNK_BLOCKS
            continue

        # Stage 2: positions.
        count = flatten(starts, blocks, positions)
        if at_end:
            put(positions, count, np.uint16(stop - base))
            end = stop
        else:
            count -= 1
            while count > 0 and base + np.int64(at(positions, count)) > decided:
                count -= 1
            end = base + np.int64(at(positions, count))
            if count == 0:
                reach *= 4
                continue
        # Ids are stored several at once, and counted after: hence the slack.
        room = per_byte * (end - base) + OUTPUT_SLACK
        if used + room > len(output):
            set_field(work, WORK_NEEDED, used + room)
            return np.int64(NEED_OUTPUT), base, used, total
        # Stages 2 to 4.
        status, done, used = _encode_pretokens(view, work, text, length, base, count, used)
        set_field(work, WORK_PIECES, field(work, WORK_PIECES) + done)
        if status != 0:
            at_piece = np.int64(at(positions, done))
            size = per_byte * (np.int64(at(positions, done + 1)) - at_piece)
            if status == NEED_MERGE:
                set_field(work, WORK_NEEDED, size)
            elif status == NEED_ARENA:
                set_field(work, WORK_NEEDED, 2 * size)
            return status, base + at_piece, used, total
        base = end


@kernel("int64(int64, int64, int64, int64, int64)")
def encode_documents(work, addresses, lengths, ends, count):
    """Encode ``count`` documents one after the other, from where the scratch says, into its output.

    Parameters
    ----------
    work : address of a scratch record
    addresses, lengths : addresses of int64[count]: where each document's UTF-8 is, and its bytes
    ends : address of int64[count]: set to the number of ids of this document and all before

    Returns the number of ids in all, or a status with ``WORK_DOCUMENT``, ``WORK_POSITION`` and ``WORK_OUTPUT_USED``
    telling where to resume: the caller mends what the status names and calls again with the same arguments.
    """
    view = field(work, WORK_VIEW)
    texts = array_at(addresses, count, np.int64)
    sizes = array_at(lengths, count, np.int64)
    counts = array_at(ends, count, np.int64)
    position = field(work, WORK_POSITION)
    used = field(work, WORK_OUTPUT_USED)
    total = np.int64(0)
    if field(work, WORK_COUNT_ONLY) != 0:
        total = used
        used = np.int64(0)
    for document in range(field(work, WORK_DOCUMENT), count):
        text = at(texts, document)
        length = at(sizes, document)
        keep_tail(work, text, length)
        status, position, used, total = _encode_document(view, work, text, length, position, used, total)
        if status != 0:
            set_field(work, WORK_DOCUMENT, document)
            set_field(work, WORK_POSITION, position)
            set_field(work, WORK_OUTPUT_USED, total + used)
            return status
        position = np.int64(0)
        put(counts, document, total + used)
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
        if blocks > len(starts):
            set_field(work, WORK_NEEDED, blocks)
            return np.int64(NEED_BITMAP)
        decided = call_kernel(walker, (field(work, WORK_VIEW), work, text, length, base, length, blocks))
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
