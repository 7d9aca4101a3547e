"""From ids back to the text: which bytes, or characters, of it each id stands for.

It runs after encoding, so that encoding without it stays as fast. Where ids are bytes of the text merged, and nothing
is left out, their lengths add up and no text is read (:mod:`offsets_by_length`), about 1 ns an id. Elsewhere the text
is cut anew as in encoding, and the ids are dealt out to the pretokens by the widths that ``tokenizers`` gives to units
(:mod:`offsets_by_pieces`, :func:`units.split_units`). ``offset_plan`` draws what both work on.
"""

import numpy as np

from numbatok.kernels.dtypes import (
    ALL_ONES,
    ONE,
    U64,
    VIEW_ARRAY_DATA,
    VIEW_ARRAY_KIND,
    VIEW_NEW_ARRAY,
    VIEW_OFFSET_TYPE,
    WORK_PLAN,
    WORK_VIEW,
    ZERO,
)
from numbatok.kernels.intrinsics import (
    array_at,
    at,
    call_kernel,
    field,
    put,
    set_bits,
    set_field,
    table,
    trailing_zeros,
)
from numbatok.kernels.intrinsics_cpython import give_up, int_value, new_array, new_pair, none
from numbatok.kernels.intrinsics_vector import in_range
from numbatok.kernels.jit import helper, kernel, method
from numbatok.kernels.offset_plan import (
    PLAN_ADDRESSES,
    PLAN_ADDS_UP,
    PLAN_COUNT,
    PLAN_ENDS,
    PLAN_FIRST,
    PLAN_LENGTHS,
    PLAN_LOCATOR,
    PLAN_OFFSETS,
    PLAN_ROWS,
    PLAN_SPACES_USED,
    PLAN_TRIM,
    PLAN_WORD_COUNTS,
    PLAN_WORDS,
    ROW_BASE,
    ROW_FIELDS,
    ROW_STOP,
    is_inside,
)
from numbatok.kernels.offsets_by_length import add_up
from numbatok.kernels.offsets_by_pieces import deal_out, number_word
from numbatok.kernels.offsets_trimmed import trim_text
from numbatok.kernels.text import encode_short, new_ids


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
    first_document = field(plan, PLAN_FIRST)
    set_field(plan, PLAN_FIRST, 0)
    if first_document == 0:
        set_field(plan, PLAN_SPACES_USED, 0)
    for document in range(first_document, count):
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
                    number_word(words, begin, end, np.int64(0)),
                )
            continue
        text = at(texts, document)
        if adds_up and add_up(plan, row, length, begin, end):
            continue
        noted = field(plan, PLAN_SPACES_USED)
        status = deal_out(view, work, plan, row, text, length, document, begin, end)
        if status != 0:
            set_field(plan, PLAN_SPACES_USED, noted)
            set_field(plan, PLAN_FIRST, document)
            return status
        trim = field(plan, PLAN_TRIM)
        if trim != 0:
            trim_text(plan, text, length, begin, end, trim)
    return np.int64(0)


@method
def encode_and_locate(owner, object_id):
    """(ids, offsets) of a ``str``, by the scratch record ``owner`` and its WORK_PLAN; None as in encode_to_array."""
    work = int_value(owner)
    plan = field(work, WORK_PLAN)
    set_field(plan, PLAN_FIRST, 0)  # a call that was left may have stopped elsewhere
    count = encode_short(object_id, work)
    if count < 0 or call_kernel(field(plan, PLAN_LOCATOR), (work, plan)) < 0:
        return none()
    ids = new_ids(work, count)
    if ids == 0:
        return ids
    view = field(work, WORK_VIEW)
    kind = field(view, VIEW_ARRAY_KIND)
    made = new_array(field(view, VIEW_NEW_ARRAY), kind, field(view, VIEW_OFFSET_TYPE), count, np.int64(2))
    if made == 0:
        give_up(ids)
        return made
    offsets = table(plan, PLAN_OFFSETS, np.int64)
    target = array_at(field(made + field(view, VIEW_ARRAY_DATA), 0), 2 * count, np.int64)
    for i in range(2 * count):
        put(target, i, at(offsets, i))
    return new_pair(ids, made)


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
        trim_text(plan, at(fields, 4 * group + 2), at(fields, 4 * group + 3), begin, end, trim)
    return count


@helper
def _begins_of_block(text, length, block):
    """Which of the 64 bytes of a text from ``block`` on begin a character."""
    if block + 64 <= length:
        return ~in_range(text + block, 0x80, 0x40)
    source = array_at(text, length, np.uint8)
    found = ZERO
    for place in range(block, length):
        if not is_inside(source, place):
            found |= ONE << U64(place - block)
    return found


@kernel("int64(int64, int64, int64)")
def turn_into_bytes(plan, groups, count):
    """Turn the offsets of texts' ids from characters into bytes; those below 0 stay.

    ``plan`` and ``groups`` are those of :func:`trim_offsets`. Offsets that rise, by and large, take one walk over the
    text. Returns ``count``.
    """
    fields = array_at(groups, 4 * count, np.int64)
    offsets = table(plan, PLAN_OFFSETS, np.int64)
    for group in range(count):
        text, length = at(fields, 4 * group + 2), at(fields, 4 * group + 3)
        block = first = number = np.int64(0)  # characters before the block, and before the lowest of ``bits``
        begins = bits = _begins_of_block(text, length, block)
        inside = np.int64(set_bits(begins))
        for i in range(2 * at(fields, 4 * group), 2 * at(fields, 4 * group + 1)):
            wanted = at(offsets, i)
            if wanted < 0:
                continue
            while wanted < first and block > 0:  # a text that another thread changes may lead anywhere else
                block -= 64
                begins = bits = _begins_of_block(text, length, block)
                inside = np.int64(set_bits(begins))
                first -= inside
                number = first
            while wanted >= first + inside and block + 64 <= length:
                first += inside
                number = first
                block += 64
                begins = bits = _begins_of_block(text, length, block)
                inside = np.int64(set_bits(begins))
            if begins == ALL_ONES:
                put(offsets, i, block + wanted - first)
                continue
            if wanted < number:
                number, bits = first, begins
            while number < wanted and bits != ZERO:
                bits &= bits - ONE
                number += 1
            put(offsets, i, block + np.int64(trailing_zeros(bits)) if bits != ZERO else length)
    return count
