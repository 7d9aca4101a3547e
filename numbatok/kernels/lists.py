"""Ids as Python lists, whose items are shared.

A list of new ints costs 10 ns an id, most of it for their memory. Here all lists hold the ints of one list,
``integers``, which has number ``i`` at place ``i``: 3 ns an id. Kernels are told of it, and of where to put what they
make, by a *listing*: int64[3], the ``id`` of ``integers``, how many it has, and the ``id`` of ``made``, a list that new
lists are appended to.
"""

import numpy as np

from numbatok.kernels.dtypes import WORK_OUTPUT
from numbatok.kernels.intrinsics import append_item, array_at, at, field, new_list, share_item
from numbatok.kernels.jit import helper, kernel
from numbatok.kernels.text import encode_short

NOT_LISTED = -101  # an id is not among the integers, or memory is short: leave it to Python
INTEGERS, KNOWN, MADE = np.int64(0), np.int64(1), np.int64(2)  # fields of a listing


@helper
def _append_list(listing, ids, begin, end):
    """Append the list of ``ids[begin:end]`` to ``made``; returns 0 or NOT_LISTED."""
    known = field(listing, KNOWN)
    for place in range(begin, end):
        if np.int64(at(ids, place)) >= known:
            return np.int64(NOT_LISTED)
    made = new_list(end - begin)
    if made == 0:
        return np.int64(NOT_LISTED)
    integers = field(listing, INTEGERS)
    for place in range(begin, end):
        share_item(made, place - begin, integers, np.int64(at(ids, place)))
    return np.int64(NOT_LISTED) if append_item(field(listing, MADE), made) < 0 else np.int64(0)


@kernel("int64(int64, int64, int64, int64)", holding_gil=True)
def list_documents(address, offsets_address, count, listing):
    """Append the list of each document's ids to ``made``.

    ``address`` is that of uint32 ids, ``offsets_address`` that of int64[count + 1], which rise. Returns 0 or
    NOT_LISTED.
    """
    offsets = array_at(offsets_address, count + 1, np.int64)
    ids = array_at(address, at(offsets, count), np.uint32)
    for document in range(count):
        status = _append_list(listing, ids, at(offsets, document), at(offsets, document + 1))
        if status < 0:
            return status
    return np.int64(0)


@kernel("int64(int64, int64, int64)", holding_gil=True)
def encode_text_to_list(object_id, work, listing):
    """Encode a short text, as ``encode_text`` does, and append the list of its ids to ``made``.

    Returns what ``encode_text`` returns, or NOT_LISTED.
    """
    count = encode_short(object_id, work)
    if count < 0:
        return count
    ids = array_at(field(work, WORK_OUTPUT), count, np.uint32)
    status = _append_list(listing, ids, np.int64(0), count)
    return status if status < 0 else count
