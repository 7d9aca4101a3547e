"""What counts as text: ``str``, or a buffer of UTF-8; and how the ill-formed is repaired or refused."""

import codecs
from array import array
from bisect import bisect_left
from mmap import mmap
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

# array takes a type from Python 3.12 on.
Text = str | bytes | bytearray | memoryview | mmap | array | npt.NDArray[np.uint8]  # type: ignore[type-arg]
Errors = Literal["strict", "replace"]
#: What the engine takes for ``errors`` to raise UnicodeEncodeError for lone surrogates, as other libraries do.
WELL_FORMED = "well-formed"
OffsetUnit = Literal["char", "byte"]

WANTED = "str, or bytes, bytearray, memoryview or another one-dimensional buffer of bytes holding UTF-8"


def repair_surrogates(text: str) -> str:
    """Join surrogate pairs, and replace lone surrogates by U+FFFD, as tiktoken does."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def character_at_byte(text: str, position: int) -> int:
    """Index of the character of ``text`` at a byte offset of its UTF-8, surrogates repaired.

    By bisection over prefixes, so that surrogate pairs, which are repaired to one character, count as the two they are.
    """
    return bisect_left(range(len(text)), position, key=lambda end: len(repair_surrogates(text[:end]).encode()))


def byte_before_replacing(data: bytes, position: int) -> int:
    """Byte offset in ``data`` of the byte offset ``position`` in what ``errors="replace"`` makes of it."""
    # Block by block to the one that holds it, then error by error: linear in the data, whatever it is.
    block = 1 << 10
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    done = start = 0  # bytes of the replaced text before, and where in data what comes next begins
    for begin in range(0, len(data), block):
        start = begin - len(decoder.getstate()[0])
        size = len(decoder.decode(data[begin : begin + block]).encode())
        if done + size > position:
            break
        done += size
    else:
        start = len(data) - len(decoder.getstate()[0])
    while True:
        try:
            valid = len(data[start : start + block + 4].decode().encode())
        except UnicodeDecodeError as error:
            if done + error.start >= position:
                return start + position - done
            done += error.start + len("\ufffd".encode())
            start += error.end
        else:
            return start + min(position - done, valid)


def as_bytes(text: Any, where: str = "") -> npt.NDArray[np.uint8]:
    """A uint8 array over the memory of an object with a buffer of bytes; no copy where it is contiguous.

    ``where`` (" at index 3 of the batch") goes into the TypeError for anything else.
    """
    if isinstance(text, np.ndarray):
        if text.dtype != np.uint8 or text.ndim != 1:
            raise TypeError(f"text must be {WANTED}, not an array of {text.dtype} with {text.ndim} dimensions{where}")
        return np.ascontiguousarray(text)
    try:
        view = memoryview(text)
    except TypeError:
        raise TypeError(f"text must be {WANTED}, not {type(text).__name__}{where}") from None
    if view.itemsize != 1 or view.ndim != 1:
        raise TypeError(
            f"text must be {WANTED}, not {type(text).__name__} of {view.itemsize}-byte items in {view.ndim} dimensions"
            f"{where}"
        )
    return np.frombuffer(view if view.c_contiguous else view.tobytes(), np.uint8)


def check_errors(errors: str) -> None:
    """ValueError unless ``errors`` is one of the two ways to treat invalid UTF-8."""
    if errors not in ("strict", "replace"):
        raise ValueError(f"errors must be 'strict' or 'replace', not {errors!r}")


def check_unit(unit: object, argument: str) -> None:
    """ValueError unless ``unit`` is one of the two that offsets are in."""
    if unit not in ("char", "byte"):
        raise ValueError(f'{argument} must be "char" or "byte", not {unit!r}')


def raise_invalid(data: npt.NDArray[np.uint8], where: str = "") -> None:
    """Raise the UnicodeDecodeError of text that is not UTF-8, with its position and what would help."""
    try:
        data.tobytes().decode()
    except UnicodeDecodeError as error:
        error.reason += f'{where}; pass errors="replace" to encode it with U+FFFD in its place'
        raise error from None
