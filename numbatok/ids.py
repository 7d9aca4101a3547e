"""Ids as callers give them: arrays of any integer type, lists, batches; as kernels take them: flat uint32."""

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from numbatok.batch import TokenBatch, check_arrays

Ids = npt.NDArray[np.uint32]
Offsets = npt.NDArray[np.int64]

_MOST = (1 << 32) - 1


def _no_such_id(id: object, position: int, where: str, vocab_size: int) -> ValueError:
    return ValueError(f"id {id} at position {position}{where} is not in this vocabulary of {vocab_size} tokens")


def as_ids(ids: object, vocab_size: int, where: str = "") -> Ids:
    """One document's ids as a contiguous uint32 array, without a copy where they are one.

    Raises TypeError for what is no sequence of integers, and ValueError for an id that does not fit, which no
    vocabulary has.
    """
    if type(ids) is np.ndarray and ids.dtype == np.uint32 and ids.ndim == 1 and ids.flags.c_contiguous:
        return ids
    if isinstance(ids, TokenBatch):
        raise TypeError(
            "ids must be those of one document, not a TokenBatch; decode_batch decodes all of its documents"
        )
    if isinstance(ids, np.ma.MaskedArray):
        raise TypeError(f"ids must be integers, not a masked array, whose masked items are none{where}")
    try:
        array = np.asarray(ids)
    except ValueError:  # sequences of different lengths
        array = np.empty((0, 0))
    if array.ndim != 1:
        raise TypeError(
            f"ids must be a one-dimensional sequence of integers, not {type(ids).__name__} {ids!r:.60}{where}"
        )
    if array.size == 0:
        return np.empty(0, np.uint32)
    if array.dtype.kind not in "iu":
        # Python ints of different sizes can become floats or objects: see what was given, one by one.
        items = list(ids) if isinstance(ids, Iterable) else []
        for position, item in enumerate(items):
            # A timedelta64 is a kind of signed integer to NumPy.
            if isinstance(item, bool | np.bool_ | np.timedelta64) or not isinstance(item, int | np.integer):
                raise TypeError(f"ids must be integers, not {type(item).__name__} at position {position}{where}")
        for position, item in enumerate(items):
            if not 0 <= item <= _MOST:
                raise _no_such_id(item, position, where, vocab_size)
        array = np.array(items, np.uint32)
    if array.dtype != np.uint32:
        wrong = (array < 0) | (array > _MOST)
        if wrong.any():
            position = int(np.argmax(wrong))
            raise _no_such_id(array[position], position, where, vocab_size)
    return np.ascontiguousarray(array, np.uint32)


def as_flat_ids(batch: "TokenBatch | Iterable[object]", vocab_size: int) -> tuple[Ids, Offsets]:
    """(ids, offsets) of many documents, from a batch or any iterable of documents' ids."""
    if isinstance(batch, TokenBatch):
        # The arrays can be edited after the batch is made, and by another thread now. A kernel reads outside of the ids
        # where the offsets say so: it gets a copy of them, which is checked.
        ids, offsets = batch.ids.astype(np.uint32, copy=False), batch.offsets.copy()
        check_arrays(ids, offsets)
        return np.ascontiguousarray(ids), offsets
    if isinstance(batch, str | bytes) or not isinstance(batch, Iterable):
        raise TypeError(f"batch must be a TokenBatch or an iterable of sequences of ids, not {type(batch).__name__}")
    documents = [as_ids(ids, vocab_size, f" of the document at index {i}") for i, ids in enumerate(batch)]
    offsets = np.zeros(len(documents) + 1, np.int64)
    np.cumsum([len(ids) for ids in documents], out=offsets[1:])
    return np.concatenate([np.empty(0, np.uint32), *documents]), offsets


def unknown_id(ids: Ids, place: int, offsets: Offsets, vocab_size: int, batch: bool) -> ValueError:
    """The error for the id at ``place`` in the flat ids, which no token has."""
    document = int(np.searchsorted(offsets, place, side="right")) - 1
    where = f" of the document at index {document}" if batch else ""
    return _no_such_id(int(ids[place]), place - int(offsets[document]), where, vocab_size)


def check_range(batch: TokenBatch, vocab_size: int, *, named: bool) -> None:
    """Refuse the first id of a batch's documents that is ``vocab_size`` or more, as decoding does."""
    ids, offsets = as_flat_ids(batch, vocab_size)
    first = int(offsets[0])
    beyond = ids[first : int(offsets[-1])] >= vocab_size
    if beyond.any():
        raise unknown_id(ids, first + int(np.argmax(beyond)), offsets, vocab_size, named)
