"""From documents to ids: the loop that runs the four stages."""

import numpy as np

from numbatok.kernels.dtypes import (
    ADDED_REFUSED,
    AT_BEGINNING,
    CHUNK_BLOCKS,
    CHUNK_BYTES,
    DISALLOWED,
    DROPPED_KEY,
    GROUP,
    GROUP_TEXT,
    GROUPS_DONE,
    GROUPS_ITEM_BYTES,
    GROUPS_OUTPUT,
    LARGE_GROUP,
    MANY_NEW,
    MISSED,
    MOST_POSITION,
    NEED_ARENA,
    NEED_BITMAP,
    NEED_MERGE,
    NEED_OUTPUT,
    NEED_ROOM,
    NO_UNTIL,
    ONE,
    OUTPUT_SLACK,
    PAUSED,
    TAIL_BYTES,
    TAIL_KEPT,
    TRACE_BEFORE,
    TRACE_LIMIT,
    TRACE_POINTS,
    TRACE_SETTLED,
    TRACE_SETTLED_IDS,
    TRACE_STARTS,
    TRACE_STEP,
    TRACE_USED,
    TRIE_LEADS,
    U64,
    VIEW_ADDED_ANY_FLAG,
    VIEW_ADDED_IDS,
    VIEW_COARSE,
    VIEW_CUTTER,
    VIEW_DROPS,
    VIEW_ENCODER,
    VIEW_FINDER,
    VIEW_IDS_PER_BYTE,
    VIEW_KEYER,
    VIEW_LONGEST_ADDED,
    VIEW_LOOKER,
    VIEW_MERGER,
    VIEW_NORMALIZED_TRIE,
    VIEW_NOTER,
    VIEW_RAW_TRIE,
    VIEW_TOGETHER,
    VIEW_WALKER,
    WORK_ACTIONS,
    WORK_COARSE,
    WORK_COUNT_ONLY,
    WORK_DOCUMENT,
    WORK_DONE,
    WORK_DROPPED,
    WORK_GROUP_BEGIN,
    WORK_GROUP_COUNT,
    WORK_GROUP_TEXT,
    WORK_KEYS,
    WORK_LEFT,
    WORK_MANY_NEW,
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
    WORK_STOP,
    WORK_SYMBOLS,
    WORK_TABLE,
    WORK_TAIL,
    WORK_TRACE,
    WORK_TRIES_OFF,
    WORK_UNTIL,
    WORK_VIEW,
    WORK_WIDE_SHIFT,
    ZERO,
)
from numbatok.kernels.intrinsics import (
    array_at,
    at,
    call_kernel,
    field,
    prefetch,
    put,
    set_field,
    table,
    trailing_zeros,
)
from numbatok.kernels.jit import helper, kernel
from numbatok.kernels.spans import flatten, place_of, wide_base_of
from numbatok.kernels.starts import LOOK_AHEAD, is_set, keep_tail, last_start, next_start, set_bit, whole_start

#: Bytes beyond a chunk that a walk and the search for added tokens look at.
_AHEAD = 128


@helper
def _trace_starts(trace, starts, base, end):
    """Note in a trace the starts of ``text[base:end]``, whose bitmap is ``starts``."""
    target = table(trace, TRACE_STARTS, np.uint64)
    if len(target) == 0:
        return
    count = end - base
    shift = U64(base & 63)
    for word in range((count + 63) >> 6):
        bits = at(starts, word)
        if 64 * word + 64 > count:
            bits &= (ONE << U64(count - 64 * word)) - ONE
        place = (base >> 6) + word
        put(target, place, at(target, place) | bits << shift)
        if shift > ZERO:
            put(target, place + 1, at(target, place + 1) | bits >> (U64(64) - shift))


@helper
def _trace_point(trace, place, used):
    """Note in a trace that a scan may begin at a place, with ``used`` ids in the output before it."""
    points = table(trace, TRACE_POINTS, np.int64)
    last = field(trace, TRACE_USED) - 1
    if place >= at(points, 2 * last) + TRACE_STEP:
        put(points, 2 * last + 2, place)
        put(points, 2 * last + 3, field(trace, TRACE_BEFORE) + used)
        set_field(trace, TRACE_USED, last + 2)


@helper
def _trace_region(view, trace, length, base, end, count):
    """Note in a trace where a region of a document of ``length`` bytes ends, with ``count`` ids before."""
    # So far a window may have reached that was widened for one long piece, or an added token.
    reach = max(np.int64(4 * CHUNK_BYTES), 16 * (end - base)) + field(view, VIEW_LONGEST_ADDED)
    if base + reach + LOOK_AHEAD <= length:
        set_field(trace, TRACE_SETTLED, end)
        set_field(trace, TRACE_SETTLED_IDS, count)


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
def _use_keys(work, keys, places, first):
    """Let the keys and places of a group, which are at these addresses, begin with those of its pretoken ``first``."""
    set_field(work, WORK_KEYS, keys + 16 * first)
    set_field(work, WORK_PLACES, places + 8 * first)


@helper
def _encode_pretokens(view, work, text, length, base, offset, begin, count, used):
    """Key, then look up or merge, pretokens ``begin`` to ``count`` whose ends are in ``WORK_POSITIONS``, by groups.

    Pretoken j is ``text[base + positions[j] : base + positions[j + 1]]``; ``offset`` is the bit of ``base`` in the
    bitmaps. The output has room for all. Returns (status, pretokens done, used).

    Where many of the last group were new, the next one is large: its keys are made, what is new is learned together,
    and then all is looked up, both by parts whose entries stay in the first-level cache meanwhile.
    """
    positions = table(work, WORK_POSITIONS, np.uint16)
    dropped = table(work, WORK_DROPPED, np.uint64)
    drops = field(view, VIEW_DROPS) != 0
    keyer = field(view, VIEW_KEYER)
    looker = field(view, VIEW_LOOKER)
    learner, noter = field(view, VIEW_TOGETHER), field(view, VIEW_NOTER)
    trace = field(work, WORK_TRACE) if field(view, VIEW_COARSE) == 0 else np.int64(0)
    # A key is read 16 bytes at once: near the text's end from its padded copy, and all of a text that this holds.
    inside = count if length > TAIL_KEPT else begin
    while inside > begin and base + np.int64(at(positions, inside - 1)) + 16 > length:
        inside -= 1
    tail_base = length - min(length, TAIL_KEPT)
    source = array_at(text, length, np.uint8)
    keys, places = field(work, WORK_KEYS), field(work, WORK_PLACES)
    entries = table(work, WORK_TABLE, np.uint64)
    status = np.int64(0)
    while begin < count and status == 0:
        misses = field(work, WORK_MISSES)
        together = learner != 0 and field(work, WORK_GROUP_COUNT) >= 0
        many_new = together and field(work, WORK_MANY_NEW) != 0
        group = min(np.int64(LARGE_GROUP if many_new else GROUP), (inside if begin < inside else count) - begin)
        noted = np.int64(0)
        for first in range(0, group, GROUP):
            part = min(np.int64(GROUP), group - first)
            _use_keys(work, keys, places, first)
            if begin < inside:
                call_kernel(keyer, (work, text, length, base, begin + first, part))
            else:
                tail = field(work, WORK_TAIL)
                call_kernel(keyer, (work, tail, TAIL_BYTES, base - tail_base, begin + first, part))
            if drops:
                drop_keys(work, dropped, offset, begin + first, part)
            _use_keys(work, keys, places, np.int64(0))
            if many_new:
                noted = call_kernel(noter, (view, work, first, first + part, noted))
        if noted > 0:
            call_kernel(learner, (view, work, text + base, begin, noted))
        set_field(work, WORK_GROUP_TEXT, text + base)
        for first in range(0, group, GROUP):
            part = min(np.int64(GROUP), group - first)
            _use_keys(work, keys, places, first)
            if group > GROUP:
                # Its entries were fetched for it to be keyed, but many others since.
                where = table(work, WORK_PLACES, np.int64)
                for j in range(part):
                    prefetch(entries, at(where, j))
            if trace != 0:
                _trace_point(trace, base + np.int64(at(positions, begin + first)), used)
            # Of the next chunk's text as much as of this one is done: later passes over English and code take 3 % less.
            last = np.int64(at(positions, begin + first + part))
            for place in range(np.int64(at(positions, begin + first)), last, 64):
                prefetch(source, base + place + CHUNK_BYTES + _AHEAD)
            set_field(work, WORK_GROUP_BEGIN, begin + first)
            set_field(work, WORK_GROUP_COUNT, part if together and not many_new else np.int64(0))
            result = call_kernel(looker, (view, work, text, length, base, begin + first, part, used))
            if result < 0:
                # The next time the group is looked up alone: what others take, learned first, may be the room that this
                # one is given, time after time.
                set_field(work, WORK_GROUP_COUNT, np.int64(-1))
                group = first + field(work, WORK_DONE)
                used = field(work, WORK_OUTPUT_USED)
                status = result
                break
            used = result
        _use_keys(work, keys, places, np.int64(0))
        begin += group
        set_field(work, WORK_MANY_NEW, np.int64(MANY_NEW * (field(work, WORK_MISSES) - misses) >= group))
    return status, begin, used


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
            following = next_start(starts, offset + CHUNK_BYTES, bits)
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
def _find_added(view, work, match, text, length, segment, floor, limit, want):
    """Search on for an added token in ``text[:limit]``, and note it at ``match``: WORK_RAW_MATCH or WORK_MATCH.

    Where none begins before ``want`` that is noted, and that the search goes on from there.
    """
    begin = field(work, match + 3)
    if begin >= min(want, limit):
        set_field(work, match, np.int64(-1))
        return
    token = np.int64(-1)
    want = max(want, begin + field(view, VIEW_LONGEST_ADDED))  # so that no byte is searched more than twice
    if field(view, VIEW_ADDED_ANY_FLAG) != 0:
        want = limit  # a token far on may take along the white space before it
    trie = view + 8 * (VIEW_RAW_TRIE if match == WORK_RAW_MATCH else VIEW_NORMALIZED_TRIE)
    if field(trie, TRIE_LEADS) != 0:
        end = min(limit, want + field(view, VIEW_LONGEST_ADDED))
        arguments = (view, work, trie, work + 8 * match, text, length, segment, floor, begin, end)
        token = call_kernel(field(view, VIEW_FINDER), arguments)
        if token >= 0 and field(work, match + 1) >= want:
            token = np.int64(-1)  # of one so near the end of what was searched more may follow
    else:
        want = limit
    set_field(work, match, token)
    if token < 0:
        set_field(work, match + 3, min(want, limit))


@helper
def last_meeting(view, work, text, length, base, stop, blocks, until):
    """The last place at or before ``until`` from which a fresh walk goes on as the one from ``base`` does.

    The blocks, whose bitmap is in ``WORK_STARTS``, reach beyond ``until``.
    """
    starts = table(work, WORK_STARTS, np.uint64)
    if field(view, VIEW_COARSE) == 0:
        return whole_start(text, length, starts, base, until)
    walker = field(view, VIEW_WALKER)
    set_field(work, WORK_COARSE, 1)
    decided = call_kernel(walker, (view, work, text, length, base, stop, blocks))
    place = whole_start(text, length, starts, base, min(until, decided))
    set_field(work, WORK_COARSE, 0)
    call_kernel(walker, (view, work, text, length, base, stop, blocks))
    return place


@helper
def _walk(view, work, text, length, base, stop, until, reach):
    """Stage 1 from ``base`` on: returns (end, status), where the bitmaps cut ``text[base:end]`` into whole pretokens.

    The last start of a walk may begin a pretoken that goes on, so the end is there; it is ``base`` where ``reach``
    blocks do not hold a whole one. ``until`` is an end if the scan comes by it; if not the status is MISSED.
    """
    starts = table(work, WORK_STARTS, np.uint64)
    blocks = min((stop - base + 63) >> 6, reach)
    if 0 <= 64 * blocks - (until - base) <= 64 and blocks == reach and blocks > 4:
        blocks -= 2  # what decides about that place may lie beyond the window: leave it to the next
    if blocks >= len(starts):
        set_field(work, WORK_NEEDED, blocks + 1)
        return base, np.int64(NEED_BITMAP)
    decided = call_kernel(field(view, VIEW_WALKER), (view, work, text, length, base, stop, blocks))
    if decided < 0:
        return base, decided
    if until <= decided and until - base < 64 * blocks:
        end = last_meeting(view, work, text, length, base, stop, blocks, until)
        return end, np.int64(0 if end == until else MISSED)
    if decided < stop:
        return base + last_start(starts, min(decided - base, 64 * blocks - 1)), np.int64(0)
    return stop, np.int64(0)


@helper
def next_added_before(view, work, text, length, base, want):
    """The next added token from ``base`` on, as the place where it is noted: WORK_RAW_MATCH or WORK_MATCH.

    Up to the next raw one is a segment, in it up to the next of the others is text. What is noted may be -1: then none
    begins before ``want``. A text is searched as it is encoded, chunk by chunk, so it is read from memory once, and
    workers that share one need not search what is not theirs.
    """
    tries_off = field(work, WORK_TRIES_OFF)
    if field(work, WORK_RAW_MATCH) < 0:
        limit = np.int64(0) if tries_off >= 1 else length
        # As far as the search for the others may come to look.
        longest = field(view, VIEW_LONGEST_ADDED)
        further = max(want, field(work, WORK_MATCH + 3) + longest) + longest
        _find_added(view, work, WORK_RAW_MATCH, text, length, np.int64(0), base, limit, further)
    if field(work, WORK_MATCH) < 0:
        limit = length
        if field(work, WORK_RAW_MATCH) >= 0:
            limit = max(field(work, WORK_RAW_MATCH + 1), base)
        elif tries_off == 0:
            limit = field(work, WORK_RAW_MATCH + 3)
        if tries_off >= 2:
            limit = np.int64(0)
        _find_added(view, work, WORK_MATCH, text, length, field(work, WORK_SEGMENT), base, limit, want)
    return WORK_MATCH if field(work, WORK_MATCH) >= 0 else WORK_RAW_MATCH


@helper
def next_added(view, work, text, length, base):
    """:func:`next_added_before` of the whole text: where -1 is noted there is none."""
    return next_added_before(view, work, text, length, base, length)


@helper
def pass_added(work, match):
    """Go on after an added token; returns where."""
    base = field(work, match + 2)
    set_field(work, match, np.int64(-1))
    if match == WORK_RAW_MATCH:
        set_field(work, WORK_SEGMENT, base)
        set_field(work, WORK_MATCH, np.int64(-1))
        set_field(work, WORK_MATCH + 3, base)
    return base


@helper
def begin_at(work, position):
    """Stand at a place of a document where a pretoken begins, with no added token searched for yet."""
    set_field(work, WORK_RESUME, position)
    set_field(work, WORK_SEGMENT, position)
    for match in (WORK_RAW_MATCH, WORK_MATCH):
        set_field(work, match, np.int64(-1))
        set_field(work, match + 3, position)


@helper
def _encode_document(view, work, text, length, position, used, total):
    """Encode ``text[position:length]``; returns (status, position reached, used, total).

    After a status the position is where a scan of the split rule stands, and ``WORK_RESUME`` says up to where the
    pretokens from there on are put out.

    With ``WORK_UNTIL`` the end is there, if the scan comes by that place: there a fresh walk goes on alike, so another
    worker may have begun. If not the status is MISSED, and what is put out ends at the position.
    """
    output = table(work, WORK_OUTPUT, np.uint32)
    actions = table(work, WORK_ACTIONS, np.uint8)
    starts = table(work, WORK_STARTS, np.uint64)
    cutter = field(view, VIEW_CUTTER)
    count_only = field(work, WORK_COUNT_ONLY) != 0
    until = field(work, WORK_UNTIL)
    trace = field(work, WORK_TRACE)
    base = position
    resume = field(work, WORK_RESUME)
    reach = CHUNK_BLOCKS  # grows while a pretoken reaches further
    while base != until:
        if base > until:  # the last added token reaches over it
            set_field(work, WORK_RESUME, resume)
            return np.int64(MISSED), base, used, total
        if field(work, WORK_LEFT) <= 0 or field(field(work, WORK_STOP), 0) != 0:
            set_field(work, WORK_RESUME, resume)
            return np.int64(PAUSED), base, used, total
        if trace != 0 and total + used > field(trace, TRACE_LIMIT):
            set_field(work, WORK_RESUME, resume)
            return np.int64(PAUSED), base, used, total
        # As far as the walk may look.
        match = next_added_before(view, work, text, length, base, min(length, base + 64 * (reach + 1)))
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
            if trace != 0 and field(trace, TRACE_STARTS + 1) != 0:
                set_bit(table(trace, TRACE_STARTS, np.uint64), stop)
            base = pass_added(work, match)
            resume = base
            continue

        end, walked = _walk(view, work, text, length, base, stop, until, reach)
        if end == base:
            if walked != 0:
                set_field(work, WORK_RESUME, resume)
                return walked, base, used, total
            reach *= 4
            continue
        if trace != 0:
            _trace_starts(trace, starts, base, end)
            set_field(trace, TRACE_BEFORE, total)
            _trace_point(trace, base, used)
        if cutter != 0:
            call_kernel(cutter, (view, work, text, length, base, end))
        # Stages 2 to 4.
        status, resume, used = encode_region(view, work, text, length, base, end, resume, used)
        if status != 0:
            set_field(work, WORK_RESUME, resume)
            return status, base, used, total
        set_field(work, WORK_LEFT, field(work, WORK_LEFT) - (end - base))
        if trace != 0:
            _trace_region(view, trace, length, base, end, total + used)
        base = end
        resume = end
        reach = CHUNK_BLOCKS
        if walked != 0:
            set_field(work, WORK_RESUME, resume)
            return walked, base, used, total
    if count_only:
        total += used
        used = np.int64(0)
    return np.int64(0), base, used, total


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
                begin_at(work, position)
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


@helper
def copy_ids(address, item_bytes, source):
    """Write ids from an address on, as uint32 or uint16."""
    count = len(source)
    if item_bytes == 4:
        wide = array_at(address, count, np.uint32)
        for i in range(count):
            put(wide, i, at(source, i))
    else:
        narrow = array_at(address, count, np.uint16)
        for i in range(count):
            put(narrow, i, np.uint16(at(source, i)))


@kernel("int64(int64, int64, int64, int64, int64, int64)")
def encode_groups(work, addresses, lengths, ends, count, groups):
    """Encode documents as :func:`encode_documents` does, and move their ids to an array, a group at a time.

    So the output is a small buffer, and what is in it still in the second-level cache when it is narrowed to uint16: a
    thread that encoded 2 MiB at once, and narrowed that then, took 4 % longer.

    ``groups`` is the address of int64[GROUPS_FIELDS]. Returns the number of ids in all, or a status as
    :func:`encode_documents` does, or NEED_ROOM, with ``WORK_OUTPUT_USED`` ids to be moved yet.
    """
    encoder = field(field(work, WORK_VIEW), VIEW_ENCODER)
    sizes = array_at(lengths, count, np.int64)
    counts = array_at(ends, count, np.int64)
    item_bytes = field(groups, GROUPS_ITEM_BYTES)
    done = field(groups, GROUPS_DONE)
    while True:
        used = field(work, WORK_OUTPUT_USED)
        if item_bytes != 0:
            if done + used > field(groups, GROUPS_OUTPUT + 1):
                return np.int64(NEED_ROOM)
            source = array_at(field(work, WORK_OUTPUT), used, np.uint32)
            copy_ids(field(groups, GROUPS_OUTPUT) + item_bytes * done, item_bytes, source)
        done += used
        set_field(groups, GROUPS_DONE, done)
        set_field(work, WORK_OUTPUT_USED, 0)
        first = field(work, WORK_DOCUMENT)
        if first == count:
            return done
        after = first
        left = np.int64(GROUP_TEXT)
        while after < count and left > 0:
            left -= abs(at(sizes, after))
            after += 1
        result = call_kernel(encoder, (work, addresses, lengths, ends, after))
        if result >= 0:
            set_field(work, WORK_OUTPUT_USED, result)
            set_field(work, WORK_DOCUMENT, after)
            set_field(work, WORK_POSITION, AT_BEGINNING)
        for document in range(first, field(work, WORK_DOCUMENT)):
            put(counts, document, at(counts, document) + done)
        if result < 0 and (result != NEED_OUTPUT or field(work, WORK_OUTPUT_USED) == 0):
            return result


@kernel("int64(int64, int64, int64, int64, int64)")
def cut_at_added(work, text, length, rows, capacity):
    """Cut a text at its added tokens, as :func:`encode_documents` does: into runs of text and tokens, none empty.

    ``rows`` is int64[3 * capacity]: start, stop and token, which is -1 for text. Returns how many rows, and in
    ``WORK_POSITION`` where the last one ends: if that is not ``length`` there are more, and the next call goes on from
    there. Or returns DISALLOWED with ``WORK_POSITION`` and ``WORK_NEEDED`` set. ``WORK_POSITION`` is 0 at first.
    """
    view = field(work, WORK_VIEW)
    output = array_at(rows, 3 * capacity, np.int64)
    actions = table(work, WORK_ACTIONS, np.uint8)
    base = field(work, WORK_POSITION)
    count = np.int64(0)
    keep_tail(work, text, length)
    if base == 0:
        begin_at(work, base)
    while base < length and count + 2 <= capacity:
        match = next_added(view, work, text, length, base)
        token = field(work, match)
        stop = length
        if token >= 0:
            stop = max(field(work, match + 1), base)
            if at(actions, token) == ADDED_REFUSED:
                set_field(work, WORK_NEEDED, token)
                set_field(work, WORK_POSITION, stop)
                return np.int64(DISALLOWED)
        if base < stop:
            put(output, 3 * count, base)
            put(output, 3 * count + 1, stop)
            put(output, 3 * count + 2, np.int64(-1))
            count += 1
        base = stop
        if token < 0:
            break
        base = pass_added(work, match)
        put(output, 3 * count, stop)
        put(output, 3 * count + 1, base)
        put(output, 3 * count + 2, token)
        count += 1
    set_field(work, WORK_POSITION, base)
    return count


@kernel("int64(int64, int64, int64, int64, int64, int64)")
def split_text(work, text, length, position, until, boundaries):
    """Write the byte offsets where the pretokens of ``text[position:until]`` begin to int64[until - position].

    ``position`` is where a pretoken begins. Returns how many, or a status: NEED_BITMAP, or MISSED where the scan does
    not come by ``until``; then ``WORK_POSITION`` is where to go on, and ``WORK_OUTPUT_USED`` how many stand so far.
    """
    output = array_at(boundaries, until - position, np.int64)
    starts = table(work, WORK_STARTS, np.uint64)
    view = field(work, WORK_VIEW)
    keep_tail(work, text, length)
    seam = until if until < length else np.int64(NO_UNTIL)
    reach = CHUNK_BLOCKS
    base = position
    used = np.int64(0)
    status = np.int64(0)
    while base < until and status == 0:
        end, status = _walk(view, work, text, length, base, length, seam, reach)
        if end == base:
            reach *= 4
            continue
        for block in range((end - base + 63) >> 6):
            bits = at(starts, block)
            while bits != ZERO:
                start = base + 64 * block + np.int64(trailing_zeros(bits))
                bits &= bits - ONE
                if start >= end:
                    break
                put(output, used, start)
                used += 1
        base = end
        reach = CHUNK_BLOCKS
    set_field(work, WORK_POSITION, base)
    set_field(work, WORK_OUTPUT_USED, used)
    return used if status == 0 else status
