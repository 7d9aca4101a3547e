"""Memory: large arrays in huge pages where the system has them, addresses, and the garbage collector."""

import ctypes
import gc
import mmap
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from numbatok.numpy_functions import ARRAY_DATA

HUGE_PAGE = 2 << 20
CACHE_LINE = 64

_Result = TypeVar("_Result")
_pointer_at = ctypes.c_size_t.from_address


def without_collection(work: Callable[[], _Result]) -> _Result:
    """``work()`` without collecting garbage: it makes millions of objects that stay, as importing Numba does.

    Not a context manager: an interrupt on the way into its exit would leave collection off for good.
    """
    if not gc.isenabled():
        return work()
    try:
        gc.disable()
        return work()
    finally:
        gc.enable()


def in_huge_pages(count: int, dtype: type[np.generic]) -> npt.NDArray[Any] | None:
    """A zeroed array of at least 2 MiB in huge pages aligned to their size; None where the system offers none.

    The advice must come before the first touch, and ``np.zeros`` gives no such moment on every system, hence a mapping.
    """
    size = count * np.dtype(dtype).itemsize
    if size < HUGE_PAGE or not hasattr(mmap, "MADV_HUGEPAGE"):
        return None
    try:
        # Not Python's default, a shared mapping: that has no huge pages, and a forked child would write to it too.
        region = mmap.mmap(-1, size + HUGE_PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except OSError as error:
        raise MemoryError(f"{size} bytes for a table: {error}") from error
    offset = -np.frombuffer(region, np.uint8).__array_interface__["data"][0] % HUGE_PAGE
    try:
        region.madvise(mmap.MADV_HUGEPAGE)
    except OSError:  # a kernel without huge pages: ordinary ones do
        pass
    return np.frombuffer(region, dtype, count, offset)


def empty(count: int, dtype: type[np.generic]) -> npt.NDArray[Any]:
    """An array with anything in it, in huge pages where it is large: a first touch of 8 MB in others takes 4 ms, not 1.

    NumPy advises them too, from 4 MiB on, but leaves up to 2 MiB at either end of an array to small ones.
    """
    mapped = in_huge_pages(count, dtype)
    return np.empty(count, dtype) if mapped is None else mapped


def in_lines(count: int, dtype: type[np.generic]) -> npt.NDArray[Any]:
    """An array with anything in it that begins at a cache line, of 64 bytes.

    A quarter of a huge page has one for itself: a first pass over French or with Llama 3 takes 2 to 3 % less where the
    table of pairs does.
    """
    size = count * np.dtype(dtype).itemsize
    room = size + CACHE_LINE
    data = empty(room if room < HUGE_PAGE // 4 else max(room, HUGE_PAGE), np.uint8)
    begin = -address_of(data) % CACHE_LINE
    return data[begin : begin + size].view(dtype)


def touch(array: npt.NDArray[np.generic]) -> None:
    """Let this thread have each huge page of a fresh array, before others write to it.

    Threads that clear fresh huge pages at once get in each other's way: 42 MB took two of them 25 to 40 ms, and 4 ms
    when one had touched each page.
    """
    array[:: HUGE_PAGE // array.itemsize] = 0


def address_of(array: npt.NDArray[np.generic]) -> int:
    """The address of an array's first element."""
    # 0.1 us; __array_interface__, which describes the items' type too, takes 0.9, and a parallel call asks for thirty.
    return _pointer_at(id(array) + ARRAY_DATA).value


def bytes_at(address: int, size: int) -> npt.NDArray[np.uint8]:
    """uint8[size] over memory that the caller keeps valid."""
    return np.frombuffer(memoryview((ctypes.c_uint8 * size).from_address(address)), np.uint8)
