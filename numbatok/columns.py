"""Columns of texts as other libraries keep them: where each text is in memory, without an object for each.

Arrow's strings and binaries (pyarrow, and whatever hands out Arrow's C interface, as polars and pandas do) are read in
place; those of NumPy's StringDType are copied once, since another thread could move them meanwhile.
"""

import ctypes
from collections.abc import Iterator
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from numbatok.memory import address_of
from numbatok.text import raise_invalid, repair_surrogates

Numbers = npt.NDArray[np.int64]

_INLINE = 12  # bytes: a string view of no more holds them itself


class _Spans(NamedTuple):
    """Addresses and lengths of texts, which of them are not null (None: all), and what keeps them in memory."""

    addresses: Numbers
    lengths: Numbers
    valid: npt.NDArray[np.bool_] | None
    kept: object


class Column:
    """Texts that are somewhere in memory as UTF-8.

    Parameters
    ----------
    addresses, lengths : int64, where each text is and its bytes
    kept : what keeps them in memory
    valid : bool, which of them are not null, or None where all are
    numbers : int64, which text each was of the column that it comes from, or None where it is that column
    checked : whether they are known to be UTF-8
    """

    def __init__(
        self,
        addresses: Numbers,
        lengths: Numbers,
        kept: object,
        valid: npt.NDArray[np.bool_] | None = None,
        numbers: Numbers | None = None,
        checked: bool = False,
    ) -> None:
        self.addresses, self.lengths, self.valid = addresses, lengths, valid
        self._kept, self._numbers, self._checked = kept, numbers, checked

    def __len__(self) -> int:
        return len(self.addresses)

    def __getitem__(self, number: int) -> bytes:
        """A copy of one text."""
        return ctypes.string_at(int(self.addresses[number]), int(self.lengths[number]))

    def __iter__(self) -> Iterator[bytes]:
        return (self[number] for number in range(len(self)))

    def number_given(self, number: int) -> int:
        """Which text of the column that it comes from one is."""
        return number if self._numbers is None else int(self._numbers[number])

    def take(self, numbers: Numbers) -> "Column":
        """The column of some texts."""
        valid = None if self.valid is None else self.valid[numbers]
        given = numbers if self._numbers is None else self._numbers[numbers]
        return Column(self.addresses[numbers], self.lengths[numbers], self._kept, valid, given, self._checked)

    @classmethod
    def of_strings(cls, strings: list[str | None]) -> "Column":
        """The texts of Python strings, in place; None is null, and lone surrogates become U+FFFD."""
        from numbatok.kernels.text import locate_list

        count = len(strings)
        addresses, lengths, kinds = np.empty(count, np.int64), np.empty(count, np.int64), np.empty(count, np.int8)
        locate_list(id(strings), count, address_of(addresses), address_of(lengths), address_of(kinds), 0)
        kept: list[object] = [strings]
        valid = None
        for number in np.flatnonzero(kinds).tolist():
            string = strings[number]
            if string is None:
                valid = np.ones(count, np.bool_) if valid is None else valid
                valid[number] = False
            data = np.frombuffer(repair_surrogates(string or "").encode(), np.uint8)
            kept.append(data)
            addresses[number], lengths[number] = address_of(data), len(data)
        return cls(addresses, lengths, kept, valid, checked=True)

    @classmethod
    def joined(cls, columns: "list[Column]") -> "Column":
        """The texts of several columns, one after the other."""
        return cls(
            np.concatenate([column.addresses for column in columns]),
            np.concatenate([column.lengths for column in columns]),
            [column._kept for column in columns],
            _joined_validity([(len(column), column.valid) for column in columns]),
            checked=all(column._checked for column in columns),
        )

    def invalid(self, threads: int | None = 1) -> list[int]:
        """The numbers of texts that are not UTF-8; ``threads`` is the caller's ``num_threads``."""
        from numbatok.kernels.utf8 import next_invalid_text
        from numbatok.utf8 import all_valid

        if self._checked:
            return []
        places = address_of(self.addresses), address_of(self.lengths), len(self)
        if all_valid(*places, int(self.lengths.sum()), threads):
            self._checked = True
            return []
        found: list[int] = []
        number = -1
        while (number := next_invalid_text(*places, number + 1)) >= 0:
            found.append(number)
        return found

    def place(self, errors: str, kept: list[Any], threads: int | None = 1) -> tuple[Numbers, Numbers]:
        """(addresses, lengths) of texts that are UTF-8: those that were not are repaired, or refused."""
        addresses, lengths = self.addresses, self.lengths
        wrong = self.invalid(threads)
        if wrong:
            addresses, lengths = addresses.copy(), lengths.copy()
        for number in wrong:
            data = self[number]
            if errors == "strict":
                raise_invalid(np.frombuffer(data, np.uint8), f" at index {self.number_given(number)} of the batch")
            repaired = np.frombuffer(data.decode("utf-8", "replace").encode(), np.uint8)
            kept.append(repaired)
            addresses[number], lengths[number] = address_of(repaired), len(repaired)
        return addresses, lengths


def _joined_validity(parts: list[tuple[int, npt.NDArray[np.bool_] | None]]) -> npt.NDArray[np.bool_] | None:
    """The validity of parts of so many texts each."""
    if all(valid is None for _, valid in parts):
        return None
    return np.concatenate([np.ones(count, np.bool_) if valid is None else valid for count, valid in parts])


def column_of(texts: object) -> Column | None:
    """The column that an object is, or None for what is to be taken as an iterable of texts.

    Raises TypeError for Arrow data of another type than strings or bytes, and ValueError for a damaged array.
    """
    if isinstance(texts, list | tuple):
        return None
    if isinstance(texts, Column):
        return texts
    if isinstance(texts, np.ndarray):
        return _of_string_dtype(texts) if texts.dtype.kind == "T" else None
    chunks = _arrow_chunks(texts)
    if chunks is None:
        return None
    spans = [_arrow_spans(chunk) for chunk in chunks]
    valid = _joined_validity([(len(span.addresses), span.valid) for span in spans])
    nothing = np.empty(0, np.int64)
    addresses = np.concatenate([nothing, *(span.addresses for span in spans)])
    lengths = np.concatenate([nothing, *(span.lengths for span in spans)])
    return Column(addresses, lengths, (texts, [span.kept for span in spans]), valid)


#: The texts of a call: a list, or a column.
Texts = list[Any] | Column


def index_given(texts: Texts, number: int) -> int:
    """The index, in what a caller gave, of one of the texts that a call was made of."""
    return texts.number_given(number) if isinstance(texts, Column) else number


def without_nulls(texts: Texts, seconds: Texts | None) -> tuple[Texts, Texts | None, npt.NDArray[np.bool_] | None]:
    """(texts, second texts, validity): without those where either is null; the validity is None where none is."""
    given = [part.valid for part in (texts, seconds) if isinstance(part, Column) and part.valid is not None]
    if not given:
        return texts, seconds, None
    validity = np.logical_and.reduce(given)
    numbers = np.flatnonzero(validity)

    def present(part: Texts) -> Texts:
        if isinstance(part, Column):
            return part.take(numbers)
        return [part[number] for number in numbers.tolist()]

    return present(texts), None if seconds is None else present(seconds), validity


def spread(offsets: Numbers, validity: npt.NDArray[np.bool_] | None) -> Numbers:
    """Where documents' ids begin, once the nulls that were left out are put back, which have none."""
    return offsets if validity is None else offsets[np.append(0, np.cumsum(validity))]


def refuse_nulls(texts: Texts | None) -> None:
    """ValueError where a text is null, for calls whose results have no place for one."""
    if isinstance(texts, Column) and texts.valid is not None and not texts.valid.all():
        raise ValueError(
            f"the text at index {int(np.argmin(texts.valid))} is null, of which there are no rows; leave it out, or "
            "fill it in"
        )


# --- Arrow ---


def _arrow_chunks(texts: Any) -> list[Any] | None:
    """The ``pyarrow.Array`` objects that a column consists of; None for what is no Arrow column, or without pyarrow."""
    inside = getattr(texts, "array", None)  # of a pandas Series
    if hasattr(inside, "__arrow_array__"):
        texts = inside
    elif not any(hasattr(texts, name) for name in ("__arrow_c_array__", "__arrow_c_stream__", "__arrow_array__")):
        return None
    if getattr(texts, "dtype", None) == np.dtype(object):  # pandas would make Arrow strings of its objects first
        return None
    try:
        pyarrow = import_module("pyarrow")
    except ImportError:
        return None
    if isinstance(texts, pyarrow.Table | pyarrow.RecordBatch):
        hint = f"table[{texts.column_names[0]!r}], for example" if texts.column_names else "a column of it"
        raise TypeError(f"texts must be one column, not a {type(texts).__name__}; pass {hint}")
    if not isinstance(texts, pyarrow.Array | pyarrow.ChunkedArray):
        if hasattr(texts, "__arrow_array__"):
            texts = texts.__arrow_array__()
        elif hasattr(texts, "__arrow_c_stream__"):
            texts = pyarrow.chunked_array(texts)
        else:
            texts = pyarrow.array(texts)
    return list(texts.chunks) if isinstance(texts, pyarrow.ChunkedArray) else [texts]


def _arrow_spans(array: Any) -> _Spans:
    """Where the texts of a ``pyarrow.Array`` are."""
    types = import_module("pyarrow").types
    kind = array.type
    if hasattr(array, "storage") and hasattr(kind, "storage_type"):
        return _arrow_spans(array.storage)
    array.validate()  # sizes of buffers, not what is in them
    if types.is_null(kind):
        return _all_null(array)
    if types.is_dictionary(kind):
        return _dictionary_spans(array)
    if types.is_string(kind) or types.is_binary(kind):
        addresses, lengths = _offset_spans(array, np.int32)
    elif types.is_large_string(kind) or types.is_large_binary(kind):
        addresses, lengths = _offset_spans(array, np.int64)
    elif _is_view(types, kind):
        addresses, lengths = _view_spans(array)
    else:
        raise TypeError(f"texts must be a column of strings or of UTF-8 as binary, not of {kind}")
    valid = array.is_valid().to_numpy(zero_copy_only=False) if array.null_count else None
    return _Spans(addresses, lengths, valid, array)


def _all_null(array: Any) -> _Spans:
    zeros = np.zeros(len(array), np.int64)
    return _Spans(zeros, zeros, np.zeros(len(array), np.bool_), array)


def _is_view(types: Any, kind: Any) -> bool:
    return any(hasattr(types, name) and getattr(types, name)(kind) for name in ("is_string_view", "is_binary_view"))


def _damaged(array: Any) -> ValueError:
    return ValueError(f"the Arrow array of {array.type} points outside of its data: it is damaged")


def _offset_spans(array: Any, dtype: type[np.signedinteger[Any]]) -> tuple[Numbers, Numbers]:
    """Addresses and lengths of the layout with offsets into one buffer."""
    if len(array) == 0:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    _, ends, data = array.buffers()
    edges = np.frombuffer(ends, dtype, array.offset + len(array) + 1)[array.offset :].astype(np.int64)
    lengths = np.diff(edges)
    base, size = (0, 0) if data is None else (data.address, data.size)
    if int(edges[0]) < 0 or int(edges[-1]) > size or (lengths < 0).any():
        raise _damaged(array)
    return base + edges[:-1], lengths


def _view_spans(array: Any) -> tuple[Numbers, Numbers]:
    """Addresses and lengths of the layout with views, of 16 bytes each: int32 length, then up to 12 bytes of the text,
    or 4 bytes of it, the int32 number of a buffer and the int32 offset in it.
    """
    if len(array) == 0:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    _, table, *data = array.buffers()
    views = np.frombuffer(table, np.int32, 4 * (array.offset + len(array))).reshape(-1, 4)[array.offset :]
    lengths = views[:, 0].astype(np.int64)
    if array.null_count:  # a null's view can hold anything
        lengths[array.is_null().to_numpy(zero_copy_only=False)] = 0
    addresses = table.address + 16 * (array.offset + np.arange(len(array))) + 4
    far = np.flatnonzero(lengths > _INLINE)
    if len(far):
        bases = np.array([0 if buffer is None else buffer.address for buffer in data], np.int64)
        sizes = np.array([0 if buffer is None else buffer.size for buffer in data], np.int64)
        buffers, offsets = views[far, 2], views[far, 3].astype(np.int64)
        if not len(bases) or buffers.min() < 0 or buffers.max() >= len(bases):
            raise _damaged(array)
        if offsets.min() < 0 or (offsets + lengths[far] > sizes[buffers]).any():
            raise _damaged(array)
        addresses[far] = bases[buffers] + offsets
    if lengths.min() < 0:
        raise _damaged(array)
    return addresses, lengths


def _dictionary_spans(array: Any) -> _Spans:
    """The texts of a dictionary array: each points to its value."""
    values = _arrow_spans(array.dictionary)
    indices = array.indices
    valid = None
    if indices.null_count:
        valid = indices.is_valid().to_numpy(zero_copy_only=False)
        indices = indices.fill_null(0)
    numbers = indices.to_numpy(zero_copy_only=False).astype(np.int64)
    if len(values.addresses) == 0 and valid is not None and not valid.any():
        return _all_null(array)
    if len(numbers) and (numbers.min() < 0 or numbers.max() >= len(values.addresses)):
        raise _damaged(array)
    if values.valid is not None:
        valid = values.valid[numbers] if valid is None else valid & values.valid[numbers]
    return _Spans(values.addresses[numbers], values.lengths[numbers], valid, (array, values.kept))


# --- NumPy ---


def _of_string_dtype(array: npt.NDArray[Any]) -> Column:
    """A column with a copy of the strings of an array of StringDType."""
    from numbatok import numpy_functions
    from numbatok.kernels.text import copy_strings

    if array.ndim != 1:
        raise TypeError(f"texts must be a one-dimensional array of strings, not one of {array.ndim} dimensions")
    function = numpy_functions.address_of_function
    load = function(numpy_functions.STRING_LOAD)
    acquire = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object)(function(numpy_functions.STRING_ACQUIRE))
    release = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(function(numpy_functions.STRING_RELEASE))
    lengths, unpacked = np.empty(len(array), np.int64), np.empty(2, np.int64)
    data = np.empty(0, np.uint8)
    copy_strings.compiled()  # before the lock is taken: it takes seconds

    def copy(output: int) -> int:
        first = address_of(array), array.strides[0], len(array)
        places = address_of(unpacked), address_of(lengths), output
        return int(copy_strings(load, allocator, *first, *places))

    allocator = acquire(array.dtype)
    try:
        total = copy(0)
        if total >= 0:
            data = np.empty(total, np.uint8)
            total = copy(address_of(data))
    finally:
        release(allocator)
    if total < 0:
        raise ValueError("NumPy could not read a string of the array: it is damaged")
    valid = lengths >= 0
    lengths[~valid] = 0
    edges = np.zeros(len(array), np.int64)
    np.cumsum(lengths[:-1], out=edges[1:])
    return Column(address_of(data) + edges, lengths, data, None if valid.all() else valid)
