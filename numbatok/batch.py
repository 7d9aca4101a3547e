"""The result of encoding many texts: flat ids and the places where each text's begin."""

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

import numpy as np
import numpy.typing as npt

from numbatok.calls import AnyIds
from numbatok.displays.escapes import many

if TYPE_CHECKING:
    from numbatok.rows import Packed


def check_arrays(ids: AnyIds, offsets: npt.NDArray[np.int64]) -> None:
    """TypeError or ValueError unless the arrays are what a :class:`TokenBatch` is made of."""
    if ids.ndim != 1 or ids.dtype not in (np.uint32, np.uint16):
        raise TypeError(
            f"ids must be a one-dimensional array of uint32 or uint16, not {ids.ndim}-dimensional {ids.dtype}"
        )
    if offsets.ndim != 1 or offsets.dtype != np.int64 or len(offsets) == 0:
        raise TypeError(
            "offsets must be a one-dimensional int64 array with one more element than documents, not "
            f"{offsets.ndim}-dimensional {offsets.dtype} of {offsets.size} elements"
        )
    if offsets[0] < 0 or offsets[-1] > len(ids) or (offsets[1:] < offsets[:-1]).any():
        raise ValueError(f"offsets must rise from 0 or more to at most {len(ids)}, the number of ids")


_Number = TypeVar("_Number", bound=np.generic)


def _rows(array: "npt.NDArray[_Number] | None", spans: list[slice]) -> "npt.NDArray[_Number] | None":
    """What an array has in some spans: a view of it where there is one."""
    if array is None or len(spans) == 1:
        return array if array is None else array[spans[0]]
    return np.concatenate([*(array[span] for span in spans), array[:0]])


class TokenBatch:
    """Ids of many documents in one array.

    Attributes
    ----------
    ids : uint32[total], or uint16 where that was asked for: the ids of all documents one after the other
    offsets : int64[documents + 1]; document ``i`` is ``ids[offsets[i]:offsets[i + 1]]``
    type_ids : uint32[total], the template's type id of each id: 0, and 1 for the second text of a pair
    token_offsets : int64[total, 2], where in its text each id begins and ends, or None where it was not asked for
    validity : bool[documents], which documents are not null, or None where all are. Nulls of a column of texts become
        null documents, which have no ids.

    Indexing gives a view of one document's ids, slicing a batch of some documents (a view too where the step is 1).

    >>> batch = numbatok.get_encoding("gpt2").encode_batch(["Hello", "", "world"])
    >>> batch[0], len(batch), batch.lengths
    (array([15496], dtype=uint32), 3, array([1, 0, 1]))
    """

    __slots__ = ("__weakref__", "_ids", "_offsets", "_token_offsets", "_type_ids", "_validity")

    def __init__(
        self,
        ids: AnyIds,
        offsets: npt.NDArray[np.int64],
        type_ids: npt.NDArray[np.uint32] | None = None,
        token_offsets: npt.NDArray[np.int64] | None = None,
        validity: npt.NDArray[np.bool_] | None = None,
    ) -> None:
        ids, offsets = np.asarray(ids), np.asarray(offsets)
        check_arrays(ids, offsets)
        if type_ids is not None:
            type_ids = np.asarray(type_ids)
            if type_ids.shape != ids.shape or type_ids.dtype != np.uint32:
                raise TypeError("type_ids must be a uint32 array as long as ids")
        if token_offsets is not None:
            token_offsets = np.asarray(token_offsets)
            if token_offsets.shape != (len(ids), 2) or token_offsets.dtype != np.int64:
                raise TypeError("token_offsets must be an int64 array of two columns, as long as ids")
        if validity is not None:
            validity = np.asarray(validity)
            if validity.shape != (len(offsets) - 1,) or validity.dtype != np.bool_:
                raise TypeError("validity must be a bool array with one element for each document")
            if (np.diff(offsets)[~validity] > 0).any():
                raise ValueError("a document that is null must have no ids")
        self._ids = ids
        self._offsets = offsets
        self._type_ids = type_ids  # None: all zero
        self._token_offsets = token_offsets
        self._validity = validity

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @overload
    def __getitem__(self, index: int) -> AnyIds: ...
    @overload
    def __getitem__(self, index: slice) -> "TokenBatch": ...
    def __getitem__(self, index: int | slice) -> "AnyIds | TokenBatch":
        if not isinstance(index, slice):
            try:
                number = range(len(self))[index]  # negative numbers count from the end
            except IndexError:
                raise IndexError(f"document {index} is not in this batch of {len(self)} documents") from None
            except TypeError:
                raise TypeError(f"a batch's index must be an integer or a slice, not {type(index).__name__}") from None
            return self.ids[self.offsets[number] : self.offsets[number + 1]]
        start, stop, step = index.indices(len(self))
        if step == 1:
            stop = max(start, stop)
            first, last = self.offsets[start], self.offsets[stop]
            span = slice(first, last)
            types, places = _rows(self._type_ids, [span]), _rows(self._token_offsets, [span])
            validity = _rows(self._validity, [slice(start, stop)])
            return TokenBatch(self.ids[first:last], self.offsets[start : stop + 1] - first, types, places, validity)
        return self.take(np.arange(start, stop, step, dtype=np.int64))

    def __iter__(self) -> Iterator[AnyIds]:
        edges = self.offsets.tolist()
        for begin, end in pairwise(edges):
            yield self.ids[begin:end]

    def __contains__(self, item: object) -> bool:
        """TypeError: documents are arrays, which ``in`` cannot compare."""
        raise TypeError("`in` cannot compare a batch's documents, which are arrays; look in batch.tolist()")

    def __eq__(self, other: object) -> bool:
        """Whether two batches hold the same documents."""
        if not isinstance(other, TokenBatch):
            return NotImplemented
        if not np.array_equal(self.lengths, other.lengths) or not np.array_equal(self._own_ids(), other._own_ids()):
            return False
        return np.array_equal(self._is_valid(), other._is_valid())

    __hash__ = None  # type: ignore[assignment]  # it holds arrays, which can change

    def __repr__(self) -> str:
        ids = int(self.offsets[-1] - self.offsets[0])
        return f"TokenBatch({many(len(self), 'document')}, {many(ids, 'id')})"

    def _repr_html_(self) -> str:
        """What a notebook shows: the first documents and their ids. ``tokenizer.show(batch)`` shows their tokens."""
        from numbatok.displays.summaries import token_batch_html

        return token_batch_html(self)

    def __reduce__(self) -> tuple[type["TokenBatch"], tuple[npt.NDArray[np.generic] | None, ...]]:
        span = slice(self.offsets[0], self.offsets[-1])
        types, places = _rows(self._type_ids, [span]), _rows(self._token_offsets, [span])
        return TokenBatch, (self._own_ids(), self.offsets - self.offsets[0], types, places, self._validity)

    def _is_valid(self) -> npt.NDArray[np.bool_]:
        return np.ones(len(self), np.bool_) if self._validity is None else self._validity

    def _own_ids(self) -> AnyIds:
        return self.ids[self.offsets[0] : self.offsets[-1]]

    @property
    def ids(self) -> AnyIds:
        """uint32[total], or uint16 where that was asked for: the ids of all documents one after the other."""
        return self._ids

    @property
    def offsets(self) -> npt.NDArray[np.int64]:
        """int64[documents + 1], where each document begins in ``ids``, and where the last ends."""
        return self._offsets

    @property
    def type_ids(self) -> npt.NDArray[np.uint32]:
        """uint32[total], the type id of each id."""
        return np.zeros(len(self.ids), np.uint32) if self._type_ids is None else self._type_ids

    @property
    def token_offsets(self) -> npt.NDArray[np.int64] | None:
        """int64[total, 2], where in its text each id begins and ends, in the unit that was asked for; or None."""
        return self._token_offsets

    @property
    def validity(self) -> npt.NDArray[np.bool_] | None:
        """bool[documents], which are not null, or None where all are. Null documents have no ids."""
        return self._validity

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """int64[documents], the number of ids of each."""
        return np.diff(self.offsets)

    def tolist(self) -> list[list[int]]:
        """A list of ints for each document.

        >>> numbatok.get_encoding("gpt2").encode_batch(["Hello world", "again"]).tolist()
        [[15496, 995], [17776]]
        """
        ids, edges = self.ids.tolist(), self.offsets.tolist()
        return [ids[begin:end] for begin, end in pairwise(edges)]

    # --- other batches ---

    @property
    def types(self) -> "TokenBatch":
        """The type ids as a batch: whatever becomes of the ids can be had of them too.

        >>> ids, mask = batch.to_padded(pad_id=0)
        >>> type_ids, _ = batch.types.to_padded(pad_id=0)
        """
        return TokenBatch(self.type_ids, self.offsets)

    @classmethod
    def concatenate(cls, batches: "Iterable[TokenBatch]") -> "TokenBatch":
        """The documents of several batches in one, in a copy.

        >>> TokenBatch.concatenate([tok.encode_batch(["a", "b"]), tok.encode_batch(["c"])])
        TokenBatch(3 documents, 3 ids)
        """
        from numbatok.rows import concatenate

        return concatenate(batches)

    def take(self, numbers: object) -> "TokenBatch":
        """The documents of these numbers, in their order, in a copy.

        ``numbers`` is a sequence of integers, or an array of them; negative ones count from the end, and one may stand
        there several times. Raises IndexError for a number of no document.

        >>> batch.take(np.argsort(batch.lengths))  # the shortest first
        """
        from numbatok.rows import take

        return take(self, numbers)

    def filter_by_length(self, least: int = 0, most: int | None = None) -> "TokenBatch":
        """The documents of ``least`` to ``most`` ids (any number where that is None), in a copy.

        To know which they were, and to filter what belongs to them: ``np.flatnonzero(batch.lengths <= most)``, and
        :meth:`take`.

        >>> numbatok.get_encoding("gpt2").encode_batch(["Hello world", "again"]).filter_by_length(least=2)
        TokenBatch(1 document, 2 ids)
        """
        from numbatok.rows import checked_number

        least = checked_number("least", least, 0)
        lengths = self.lengths
        kept = lengths >= least
        if most is not None:
            kept &= lengths <= checked_number("most", most, 0)
        return self.take(np.flatnonzero(kept))

    # --- for models and other libraries ---

    def to_padded(
        self,
        pad_id: int | None = None,
        length: int | None = None,
        multiple_of: int | None = None,
        side: Literal["left", "right"] = "right",
        truncate: "bool | Literal['left', 'right']" = False,
    ) -> "tuple[npt.NDArray[np.uint32], npt.NDArray[np.bool_]]":
        """One row of ids for each document, all of one length.

        Parameters
        ----------
        pad_id : the id that short rows are filled up with. Only where all documents have the one length can it be left
            out: a batch does not know its tokenizer's, and most tokenizers have none.
        length : of the rows; that of the longest document if not given
        multiple_of : the length is rounded up to a multiple of this
        side : where the filling goes
        truncate : whether to cut documents that are longer, at the ``"right"`` (or True) or the ``"left"``

        Returns
        -------
        (ids, mask) : uint32[documents, length], and bool[documents, length], which is True where ids are the document's

        Raises ValueError that names a document which is longer than ``length`` where ``truncate`` is False, and for a
        document that would have to be filled up where no ``pad_id`` is given.

        >>> numbatok.get_encoding("gpt2").encode_batch(["Hello world", "again"]).to_padded(pad_id=50256)
        (array([[15496,   995],
               [17776, 50256]], dtype=uint32), array([[ True,  True],
               [ True, False]]))
        """
        from numbatok.rows import to_padded

        return to_padded(self, pad_id, length, multiple_of, side, truncate)

    def pack(self, length: int, separator: int | None = None) -> "Packed":
        """All ids one after the other, cut into rows of one length, for training.

        ``separator`` is an id to put after each document, such as that of ``<|endoftext|>``. Returns (rows, left_over):
        uint32[rows, length], and the ids at the end, fewer than ``length``, that fill no row. Without a separator both
        are views.

        >>> rows, left_over = batch.pack(1024, separator=50256)
        """
        from numbatok.rows import pack

        return pack(self, length, separator)

    def to_arrow(self) -> Any:
        """A ``pyarrow.ListArray`` of uint32, or uint16, over the memory of the ids; null where a document is.

        From 2**31 ids on it is a ``LargeListArray``. Needs pyarrow: ``pip install numbatok[arrow]``.

        >>> numbatok.get_encoding("gpt2").encode_batch(["Hello world", ""]).to_arrow().to_pylist()
        [[15496, 995], []]
        """
        from numbatok.rows import to_arrow

        return to_arrow(self)

    def to_awkward(self) -> Any:
        """An ``awkward.Array`` of lists of uint32, over the memory of the ids; a null document is an empty list.

        Ids of uint16 are copied. Needs awkward: ``pip install numbatok[awkward]``.

        >>> numbatok.get_encoding("gpt2").encode_batch(["Hello world", ""]).to_awkward().to_list()
        [[15496, 995], []]
        """
        from numbatok.rows import to_awkward

        return to_awkward(self)

    def to_torch(self) -> tuple[Any, Any]:
        """(ids, offsets) as tensors: int32 over the memory of the ids, and int64.

        They are what ``torch.nn.EmbeddingBag`` and ``torch.nested.nested_tensor_from_jagged`` take; a null document
        has no ids. Ids of 2**31 and above make the first an int64 copy, ids of uint16 an int32 one. For rows of one
        length: ``torch.from_numpy`` of what :meth:`to_padded` gives, viewed as int32. Needs PyTorch:
        ``pip install numbatok[torch]``.

        >>> ids, offsets = numbatok.get_encoding("gpt2").encode_batch(["Hello world", "again"]).to_torch()
        """
        from numbatok.rows import to_torch

        return to_torch(self)
