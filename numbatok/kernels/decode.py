"""From ids back to bytes."""

import numpy as np

from numbatok.kernels.intrinsics import array_at, at, put
from numbatok.kernels.intrinsics_vector import copy_16_bytes
from numbatok.kernels.jit import kernel

WIDEST_COPY = 16  # bytes copied at once: how much the token data are longer than what they hold
UNKNOWN = -1  # in a table of token numbers: no token has the id
LEFT_OUT = -2  # the id is a special token, and special tokens are skipped
NO_ROOM = -(1 << 63)  # the output is too small


@kernel("int64(int64, int64, int64, int64, int64, int64, int64, int64, int64, int64, int64, int64)")
def decode_documents(
    ids, offsets, documents, token_of_id, id_limit, starts, tokens, data, data_bytes, output, capacity, ends
):
    """Write the bytes of all documents' ids to ``output``; return how many bytes that is.

    Parameters
    ----------
    ids : address of uint32
    offsets : address of int64[documents + 1], places in ``ids``
    token_of_id : address of int32[id_limit], a token's number, or UNKNOWN, or LEFT_OUT
    starts : address of int64[tokens + 1], byte offsets of the tokens in ``data``, uint8[data_bytes]
    output : address of uint8[capacity]; with ``capacity`` 0 bytes are counted and nothing is written
    ends : address of int64[documents], set to the number of bytes of this document and all before

    An unknown id is reported as ``-1 - its place in ids``. NO_ROOM where the bytes are more than ``capacity`` allows:
    another thread may change the ids after they were counted.
    """
    edges = array_at(offsets, documents + 1, np.int64)
    given = array_at(ids, at(edges, documents), np.uint32)
    numbers = array_at(token_of_id, id_limit, np.int32)
    begins = array_at(starts, tokens + 1, np.int64)
    source = array_at(data, data_bytes, np.uint8)
    target = array_at(output, capacity, np.uint8)
    end_of = array_at(ends, documents, np.int64)
    used = np.int64(0)
    for document in range(documents):
        for i in range(at(edges, document), at(edges, document + 1)):
            number = np.int64(at(given, i))
            token = np.int64(at(numbers, number)) if number < id_limit else np.int64(UNKNOWN)
            if token < 0:
                if token == UNKNOWN:
                    return np.int64(-1 - i)
                continue
            begin = at(begins, token)
            size = at(begins, token + 1) - begin
            if capacity > 0:
                if used + size > capacity:
                    return np.int64(NO_ROOM)
                copied = np.int64(0)
                if used + WIDEST_COPY <= capacity:
                    copy_16_bytes(target, used, source, begin)
                    copied = np.int64(WIDEST_COPY)
                for j in range(copied, size):
                    put(target, used + j, at(source, begin + j))
            used += size
        put(end_of, document, used)
    return used
