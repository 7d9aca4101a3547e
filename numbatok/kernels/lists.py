"""Ids as Python lists: those made here share their items, and those given are decoded as they are.

A list of new ints costs 10 ns an id, most of it for their memory. Here all lists hold the ints of one list,
``integers``, which has number ``i`` at place ``i``: 3 ns an id. Kernels are told of it by a *listing*: int64[2], the
``id`` of ``integers``, and how many it has.
"""

import numpy as np

from numbatok.kernels.decode import UNKNOWN, WIDEST_COPY
from numbatok.kernels.dtypes import WORK_LISTING, WORK_OUTPUT
from numbatok.kernels.intrinsics import array_at, at, field, put, table
from numbatok.kernels.intrinsics_cpython import (
    append_item,
    int_value,
    list_item,
    list_size,
    memory_of_bytes,
    new_bytes,
    new_list,
    none,
    share_item,
)
from numbatok.kernels.intrinsics_vector import copy_16_bytes
from numbatok.kernels.jit import helper, kernel, method
from numbatok.kernels.text import encode_short

NOT_LISTED = -101  # an id is none that a table knows, or memory is short: leave it to Python
INTEGERS, KNOWN = np.int64(0), np.int64(1)  # fields of a listing


@helper
def _list_of(listing, ids, begin, end):
    """``id`` of a new list of ``ids[begin:end]``; owned. It is 0 for an id that is not known, and without memory."""
    known = field(listing, KNOWN)
    for place in range(begin, end):
        if np.int64(at(ids, place)) >= known:
            return np.int64(0)
    made = new_list(end - begin)
    if made == 0:
        return made
    integers = field(listing, INTEGERS)
    for place in range(begin, end):
        share_item(made, place - begin, integers, np.int64(at(ids, place)))
    return made


@kernel("int64(int64, int64, int64, int64, int64)", holding_gil=True)
def list_documents(address, offsets_address, count, listing, lists):
    """Append the list of each document's ids to the list whose ``id`` is ``lists``.

    ``address`` is that of uint32 ids, ``offsets_address`` that of int64[count + 1], which rise. Returns 0 or
    NOT_LISTED.
    """
    offsets = array_at(offsets_address, count + 1, np.int64)
    ids = array_at(address, at(offsets, count), np.uint32)
    for document in range(count):
        made = _list_of(listing, ids, at(offsets, document), at(offsets, document + 1))
        if made == 0 or append_item(lists, made) < 0:
            return np.int64(NOT_LISTED)
    return np.int64(0)


@method
def encode_to_list(owner, object_id):
    """The ids of a ``str`` as a new list, by WORK_LISTING of the record ``owner``; None as in encode_to_array."""
    work = int_value(owner)
    count = encode_short(object_id, work)
    if count < 0:
        return none()
    made = _list_of(work + 8 * WORK_LISTING, table(work, WORK_OUTPUT, np.uint32), np.int64(0), count)
    return none() if made == 0 else made


@method
def decode_list(owner, list_id):
    """The bytes of a list of ids; None for another type, and where an item is no ``int`` or an id that no token has.

    The owner is the address of the int64[6] that ``decode_documents`` takes as ``token_of_id`` to ``data_bytes``.
    """
    tables = int_value(owner)
    token_of_id, id_limit, starts = field(tables, np.int64(0)), field(tables, np.int64(1)), field(tables, np.int64(2))
    tokens, data, data_bytes = field(tables, np.int64(3)), field(tables, np.int64(4)), field(tables, np.int64(5))
    numbers = array_at(token_of_id, id_limit, np.int32)
    begins = array_at(starts, tokens + 1, np.int64)
    source = array_at(data, data_bytes, np.uint8)
    count = list_size(list_id)
    if count < 0:
        return none()
    size = np.int64(0)
    for place in range(count):
        number = int_value(list_item(list_id, place))
        if number < 0 or number >= id_limit:
            return none()
        token = np.int64(at(numbers, number))
        if token >= 0:
            size += at(begins, token + 1) - at(begins, token)
        elif token == UNKNOWN:
            return none()
    whole = new_bytes(size)
    if whole == 0:
        return none()
    address, _ = memory_of_bytes(whole)
    target = array_at(address, size, np.uint8)
    used = np.int64(0)
    for place in range(count):
        token = np.int64(at(numbers, int_value(list_item(list_id, place))))
        if token < 0:
            continue
        begin = at(begins, token)
        length = at(begins, token + 1) - begin
        copied = np.int64(0)
        if used + WIDEST_COPY <= size:
            copy_16_bytes(target, used, source, begin)
            copied = np.int64(WIDEST_COPY)
        for j in range(copied, length):
            put(target, used + j, at(source, begin + j))
        used += length
    return whole
