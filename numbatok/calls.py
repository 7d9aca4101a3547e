"""What a call asks for besides its texts, and where its ids go."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Check = Callable[[], None] | None
AnyIds = npt.NDArray[np.unsignedinteger[Any]]
IdType = type[np.uint32] | type[np.uint16]


class Call(NamedTuple):
    """What a call asks for, besides its texts.

    Attributes
    ----------
    actions : what is done at each added token, see :meth:`numbatok.engine.Engine.actions`
    errors : what is done where bytes are not UTF-8
    special : whether templates add their special tokens; None: each text stands for itself, without its template
    threads : the caller's ``num_threads``
    id_type : of the ids
    out : where they go, or None for a new array
    count_only : whether ids are only counted
    end : the id that is put after each text, or None
    aligned : whether it is kept what the characters of normalized text stand for: offsets are asked for next
    expected : bytes of text that a thread's cache is to be ready for: of this call, and of others that follow it
    check : called now and then; what it raises ends the call
    """

    actions: npt.NDArray[np.uint8]
    errors: str
    special: bool | None
    threads: int | None = None
    id_type: IdType = np.uint32
    out: AnyIds | None = None
    count_only: bool = False
    end: int | None = None
    aligned: bool = False
    expected: int = 0
    check: Check = None

    def place(self, ids: AnyIds) -> AnyIds:
        """Ids in the type, and in the array, that are asked for."""
        if self.out is None:
            return ids.astype(self.id_type, copy=False)
        self.check_room(len(ids))
        out = self.out[: len(ids)]
        out[:] = ids
        return out

    def check_room(self, count: int) -> None:
        """ValueError unless the caller's array has room for so many ids."""
        if self.out is not None and count > len(self.out):
            raise ValueError(f"out has room for {len(self.out)} ids, but the texts have {count}; pass a larger array")


def id_type_of(dtype: object, out: object, vocab_size: int) -> IdType:
    """The type of ids that ``dtype`` and ``out`` ask for together; TypeError or ValueError where they can't be had."""
    if out is not None:
        if not isinstance(out, np.ndarray):
            raise TypeError(f"out must be a NumPy array of uint32 or uint16, not {type(out).__name__}")
        if out.ndim != 1 or not out.flags.c_contiguous or not out.flags.writeable:
            given = f"of shape {out.shape}" if out.ndim != 1 else "read-only" if out.flags.c_contiguous else "with gaps"
            raise ValueError(f"out must be a one-dimensional, contiguous and writeable array, not one {given}")
        if dtype is not None and np.dtype(dtype) != out.dtype:  # type: ignore[call-overload]
            raise ValueError(f"dtype is {np.dtype(dtype)}, but out is of {out.dtype}")  # type: ignore[call-overload]
        dtype = out.dtype
    wanted = np.dtype(np.uint32 if dtype is None else dtype)  # type: ignore[call-overload]
    if wanted == np.uint32:
        return np.uint32
    if wanted != np.uint16:
        raise ValueError(f"ids can be of uint32 or uint16, not of {wanted}")
    if vocab_size > 1 << 16:
        raise ValueError(f"uint16 holds ids below 65536, but this vocabulary has {vocab_size}; use uint32")
    return np.uint16
