"""Batches as models and other libraries take them: rows of one length, tensors, arrays of lists.

The functions here stand behind the methods of :class:`numbatok.TokenBatch`, which tell what they do.
"""

from collections.abc import Iterable
from importlib import import_module
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from numbatok.batch import TokenBatch, check_arrays
from numbatok.ids import Ids, as_flat_ids
from numbatok.memory import address_of

Side = Literal["left", "right"]


class Packed(NamedTuple):
    """Rows of one length from the ids of many documents, and what did not fill another row.

    Attributes
    ----------
    rows : uint32[rows, length]
    left_over : uint32, fewer than ``length`` ids, the last ones

    >>> numbatok.get_encoding("gpt2").encode_batch(["Hello world", "again"]).pack(2)
    Packed(rows=array([[15496,   995]], dtype=uint32), left_over=array([17776], dtype=uint32))
    """

    rows: npt.NDArray[np.uint32]
    left_over: Ids


MOST = 1 << 40  # more tokens than anything has


def checked_number(name: str, value: object, least: int, most: int | None = None) -> int:
    """An argument as an int, or the TypeError or ValueError that says what it must be.

    What is above MOST, as the 10^30 that stands for no limit in some models' settings, counts as that.
    """
    if isinstance(value, bool | np.bool_ | np.timedelta64) or not isinstance(value, int | np.integer):
        raise TypeError(f"{name} must be an integer, not {type(value).__name__}")
    if value < least or (most is not None and value > most):
        bounds = f"at least {least}" if most is None else f"from {least} to {most}"
        raise ValueError(f"{name} must be {bounds}, not {value}")
    return min(int(value), MOST)


def checked_choice(name: str, value: object, choices: tuple[str, ...]) -> None:
    """ValueError unless an argument is one of the choices."""
    if value not in choices:
        raise ValueError(f"{name} must be {' or '.join(map(repr, choices))}, not {value!r}")


def checked_id(name: str, value: object) -> int:
    """An argument that is an id, as an int."""
    return checked_number(name, value, 0, (1 << 32) - 1)


def joined(
    addresses: npt.NDArray[np.int64], counts: npt.NDArray[np.int64], separator: int = -1
) -> npt.NDArray[np.uint32]:
    """The elements of spans one after the other, in a new array: see ``kernels.rows.join_spans``."""
    from numbatok.kernels.rows import join_spans

    addresses, counts = np.ascontiguousarray(addresses).ravel(), np.ascontiguousarray(counts).ravel()
    output = np.empty(int(counts.sum()) + (len(counts) if separator >= 0 else 0), np.uint32)
    join_spans(address_of(addresses), address_of(counts), len(counts), separator, address_of(output))
    return output


def take(batch: TokenBatch, numbers: object) -> TokenBatch:
    """Some documents of a batch, in any order."""
    wanted = np.asarray(numbers)
    if wanted.size == 0 and wanted.ndim == 1:
        wanted = wanted.astype(np.int64)
    if wanted.ndim != 1 or wanted.dtype.kind not in "iu":
        hint = "; np.flatnonzero makes numbers of a mask" if wanted.dtype == np.bool_ else ""
        raise TypeError(
            "numbers must be a one-dimensional sequence of integers, not "
            f"{wanted.ndim}-dimensional {wanted.dtype}{hint}"
        )
    count = len(batch)
    if wanted.dtype.kind == "u":
        wanted = np.minimum(wanted, np.iinfo(np.int64).max)
    wanted = wanted.astype(np.int64)
    wrong = (wanted < -count) | (wanted >= count)
    if wrong.any():
        raise IndexError(f"document {wanted[np.argmax(wrong)]} is not in this batch of {count} documents")
    wanted[wanted < 0] += count
    ids, offsets = as_flat_ids(batch, 0)
    lengths = np.diff(offsets)[wanted]
    edges = np.zeros(len(wanted) + 1, np.int64)
    np.cumsum(lengths, out=edges[1:])

    def chosen(array: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
        return joined(address_of(array) + 4 * offsets[wanted], lengths)

    types = None if batch._type_ids is None else chosen(np.ascontiguousarray(batch._type_ids))
    places = None
    if batch.token_offsets is not None:
        moves = np.repeat(offsets[wanted] - edges[:-1], lengths)
        places = batch.token_offsets[moves + np.arange(edges[-1], dtype=np.int64)]
    validity = None if batch.validity is None else batch.validity[wanted]
    return TokenBatch(chosen(ids).astype(batch.ids.dtype, copy=False), edges, types, places, validity)


def concatenate(batches: Iterable[TokenBatch]) -> TokenBatch:
    """The documents of several batches in one; with offsets of tokens where all have them."""
    if isinstance(batches, TokenBatch):
        raise TypeError("batches must be an iterable of TokenBatch, not one TokenBatch")
    parts = list(batches)
    for number, part in enumerate(parts):
        if not isinstance(part, TokenBatch):
            raise TypeError(f"batches must hold TokenBatch, not {type(part).__name__} at index {number}")
    lengths = np.concatenate([np.empty(0, np.int64), *(part.lengths for part in parts)])
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])

    def whole(arrays: Iterable[npt.NDArray[np.uint32]]) -> npt.NDArray[np.uint32]:
        spans = [array[part.offsets[0] : part.offsets[-1]] for array, part in zip(arrays, parts, strict=True)]
        return np.concatenate([np.empty(0, np.uint32), *spans])

    typed = any(part._type_ids is not None for part in parts)
    types = whole(part.type_ids for part in parts) if typed else None
    places = [part.token_offsets for part in parts]
    located = [
        place[part.offsets[0] : part.offsets[-1]]
        for place, part in zip(places, parts, strict=True)
        if place is not None
    ]
    token_offsets = np.concatenate(located) if located and len(located) == len(parts) else None
    validity = None
    if any(part.validity is not None for part in parts):
        validity = np.concatenate([part._is_valid() for part in parts])
    return TokenBatch(whole(part.ids for part in parts), offsets, types, token_offsets, validity)


def to_padded(
    batch: TokenBatch,
    pad_id: int | None,
    length: int | None,
    multiple_of: int | None,
    side: Side,
    truncate: bool | Side,
) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.bool_]]:
    """(ids, mask), one row for each document."""
    from numbatok.kernels.rows import pad_rows

    checked_choice("side", side, ("left", "right"))
    if not isinstance(truncate, bool):
        checked_choice("truncate", truncate, ("left", "right"))
    ids, offsets = as_flat_ids(batch, 0)
    counts = np.diff(offsets)
    longest = int(counts.max(initial=0))
    width = longest if length is None else checked_number("length", length, 0)
    if multiple_of is not None:
        width += -width % checked_number("multiple_of", multiple_of, 1)
    places = address_of(ids) + 4 * offsets[:-1]
    if longest > width:
        if truncate is False:
            number = int(np.argmax(counts > width))
            raise ValueError(
                f"the document at index {number} has {counts[number]} ids, more than the length {width}; pass "
                "truncate=True to cut off its end, or take those that fit by filter_by_length"
            )
        if truncate == "left":
            places += 4 * np.maximum(counts - width, 0)
        counts = np.minimum(counts, width)
    if pad_id is None:
        if len(counts) and int(counts.min()) < width:
            number = int(np.argmax(counts < width))
            raise ValueError(
                f"the document at index {number} has {counts[number]} ids, fewer than the length {width}, and a batch "
                "knows of no id to fill it up with: pass pad_id, such as tokenizer.token_to_id of its padding token"
            )
        pad_id = 0
    pad = checked_id("pad_id", pad_id)
    output = np.empty((len(counts), width), np.uint32)
    mask = np.empty((len(counts), width), np.bool_)
    pad_rows(
        address_of(places),
        address_of(counts),
        len(counts),
        width,
        pad,
        int(side == "left"),
        address_of(output),
        address_of(mask),
    )
    return output, mask


def pack(batch: TokenBatch, length: int, separator: int | None) -> Packed:
    """All ids in rows of one length."""
    length = checked_number("length", length, 1)
    ids, offsets = as_flat_ids(batch, 0)
    if separator is None:
        flat = ids[offsets[0] : offsets[-1]]
    else:
        places = address_of(ids) + 4 * offsets[:-1]
        flat = joined(places, np.diff(offsets), checked_id("separator", separator))
    used = len(flat) - len(flat) % length
    return Packed(flat[:used].reshape(-1, length), flat[used:])


def to_arrow(batch: TokenBatch) -> Any:
    """A ``pyarrow.ListArray`` or ``LargeListArray`` of uint32 or uint16."""
    pyarrow = library("pyarrow", "arrow", "TokenBatch.to_arrow")
    ids, offsets = batch.ids, batch.offsets.copy()
    check_arrays(ids, offsets)  # they can have been edited since, and pyarrow reads where the offsets say
    values = pyarrow.array(ids)
    mask = None if batch.validity is None else pyarrow.array(~batch.validity)
    if int(offsets[-1]) < 1 << 31:
        return pyarrow.ListArray.from_arrays(pyarrow.array(offsets.astype(np.int32)), values, mask=mask)
    return pyarrow.LargeListArray.from_arrays(pyarrow.array(offsets), values, mask=mask)


def to_awkward(batch: TokenBatch) -> Any:
    """An ``awkward.Array`` of lists of uint32."""
    awkward = library("awkward", "awkward", "TokenBatch.to_awkward")
    ids, offsets = as_flat_ids(batch, 0)
    layout = awkward.contents.ListOffsetArray(awkward.index.Index64(offsets), awkward.contents.NumpyArray(ids))
    return awkward.Array(layout)


def to_torch(batch: TokenBatch) -> tuple[Any, Any]:
    """(ids, offsets) as tensors."""
    torch = library("torch", "torch", "TokenBatch.to_torch")
    ids, offsets = as_flat_ids(batch, 0)
    if int(ids.max(initial=0)) < 1 << 31:
        # Few operations of torch know uint32. It warns of memory that may not be written to.
        values: npt.NDArray[np.signedinteger[Any]] = (ids if ids.flags.writeable else ids.copy()).view(np.int32)
    else:
        values = ids.astype(np.int64)
    return torch.from_numpy(values), torch.from_numpy(offsets)


def library(name: str, extra: str, method: str) -> Any:
    """An optional library, or the ImportError that says how to get it."""
    try:
        return import_module(name)
    except ImportError:
        raise ImportError(f"{method} needs {name}: pip install numbatok[{extra}]") from None
