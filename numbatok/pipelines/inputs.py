"""What goes in: files by name, directories and patterns, and their bytes, decompressed as they are read."""

import bz2
import glob
import gzip
import io
import lzma
import os
import sys
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, BinaryIO, Literal

from numbatok.rows import library

InputFormat = Literal["text", "jsonl", "parquet", "arrow"]

#: What reading a damaged or vanished file raises.
READ_ERRORS = (OSError, EOFError, zlib.error, lzma.LZMAError)

_FORMATS: dict[str, InputFormat] = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
}
_COMPRESSED = (".gz", ".bz2", ".xz", ".zst", ".zstd")
_PIECE = 1 << 18  # bytes of a compressed stream that are read at once


@dataclass(frozen=True)
class Input:
    """A file to be read, ``-`` for standard input, and what its documents are called."""

    path: str
    format: InputFormat
    unit: Literal["", "line", "document", "row"]
    size: int | None  # bytes on the disk; None for what is no plain file

    @property
    def shown(self) -> str:
        """Its name for people."""
        return "standard input" if self.path == "-" else self.path

    def where(self, number: int) -> str:
        """What a document is called: lines and documents count from 1, rows from 0."""
        return f"{self.unit} {number}" if self.unit else ""


def find_inputs(
    inputs: "str | os.PathLike[str] | Iterable[str | os.PathLike[str]]",
    input_format: InputFormat | None,
    separator: bytes | None,
    output: "str | os.PathLike[str]",
) -> list[Input]:
    """The files that names, directories and patterns stand for, in order.

    Of a directory those are all files in it and below, in order of their names, but for those whose name, or that of
    a directory on the way, begins with a dot or an underscore. What is in the output's folder is passed over. Raises
    FileNotFoundError for what stands for no file.
    """
    place = os.path.join(os.path.realpath(output), "")

    def without_output(paths: Iterable[str]) -> list[str]:
        return sorted(path for path in paths if not os.path.realpath(path).startswith(place))

    names = [inputs] if isinstance(inputs, str | os.PathLike) else list(inputs)
    found: list[str] = []
    for given in names:
        name = os.fspath(given)
        if not isinstance(name, str):
            raise TypeError(f"inputs must be names as str or os.PathLike, not {type(name).__name__}")
        if name == "-":
            paths = [name]
        elif os.path.isdir(name):
            paths = without_output(_files_below(name))
        elif os.path.lexists(name):
            paths = [name]
        else:
            paths = without_output(path for path in glob.glob(name, recursive=True) if not os.path.isdir(path))
        if not paths:
            raise FileNotFoundError(2, "no such file, directory with files, or pattern that fits one", name)
        found += paths
    if found.count("-") > 1:
        raise ValueError("standard input (-) can be read once only")
    return [_input_of(path, input_format, separator) for path in found]


def _files_below(folder: str) -> Iterable[str]:
    for place, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith((".", "_"))]
        yield from (os.path.join(place, name) for name in files if not name.startswith((".", "_")))


def format_by_name(path: str) -> tuple[InputFormat, bool]:
    """What a file's name says of its format, and whether it is compressed."""
    whole = name = path.lower()
    for suffix in _COMPRESSED:
        name = name.removesuffix(suffix)
    return _FORMATS.get(os.path.splitext(name)[1], "text"), name != whole


def _input_of(path: str, input_format: InputFormat | None, separator: bytes | None) -> Input:
    if input_format is None:
        input_format, _ = format_by_name(path)
    unit: Literal["", "line", "document", "row"] = ""
    if input_format == "jsonl":
        unit = "line"
    elif input_format != "text":
        unit = "row"
    elif separator is not None:
        unit = "line" if separator == b"\n" else "document"
    return Input(path, input_format, unit, os.path.getsize(path) if os.path.isfile(path) else None)


class Source:
    """The bytes of a file, decompressed where its first bytes say that it is compressed.

    gzip, bzip2 and xz are read by the standard library, Zstandard by pyarrow. None of them begins as UTF-8 can, but
    for bzip2, of which ten bytes are looked at.
    """

    def __init__(self, path: str) -> None:
        self._is_stdin = path == "-"
        self._file: BinaryIO = _standard_input() if self._is_stdin else open(path, "rb")  # noqa: SIM115
        file: Any = self._file
        buffered = file if hasattr(file, "peek") else io.BufferedReader(file)
        try:
            self._stream = _decompressed(buffered, buffered.peek(10)[:10])
        except BaseException:
            self.close()
            raise
        self.is_plain = self._stream is buffered
        self._piece = memoryview(b"")

    def __enter__(self) -> "Source":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        if not self._is_stdin:
            self._file.close()

    @property
    def consumed(self) -> int:
        """Bytes of the file that have been read, compressed as they are."""
        return 0 if self._is_stdin else self._file.tell()

    def readinto(self, room: memoryview) -> int:
        """Read some bytes, at least one before the end; return how many."""
        if self.is_plain:
            return int(self._stream.readinto(room))
        if not self._piece:
            # Always the same pieces, wherever reading began: of a file that ends early all runs get the same bytes.
            self._piece = memoryview(self._stream.read1(_PIECE))
        count = min(len(self._piece), len(room))
        room[:count] = self._piece[:count]
        self._piece = self._piece[count:]
        return count

    def skip(self, count: int) -> bool:
        """Pass over so many bytes; whether there were as many."""
        if self.is_plain and not self._is_stdin and self._stream.seekable():
            self._stream.seek(count)
            return os.fstat(self._file.fileno()).st_size >= count
        room = memoryview(bytearray(min(count, _PIECE)))
        while count:
            got = self.readinto(room[: min(count, len(room))])
            if not got:
                return False
            count -= got
        return True


def _standard_input() -> BinaryIO:
    """Standard input by a buffer of our own: one that a thread still reads from at exit would end Python fatally."""
    if sys.stdin is None:
        raise OSError("is closed")
    try:
        return open(sys.stdin.fileno(), "rb", closefd=False)
    except (OSError, ValueError):  # replaced by something without a descriptor
        return sys.stdin.buffer


class _Zstandard:
    """A stream that pyarrow decompresses."""

    def __init__(self, file: Any) -> None:
        pyarrow = library("pyarrow", "arrow", "reading Zstandard")
        self._stream = pyarrow.CompressedInputStream(pyarrow.PythonFile(file, mode="r"), "zstd")

    def read1(self, size: int) -> bytes:
        data: bytes = self._stream.read(size)
        return data


def _decompressed(file: Any, begin: bytes) -> Any:
    if begin.startswith(b"\x1f\x8b"):
        return gzip.GzipFile(fileobj=file, mode="rb")
    if begin.startswith(b"BZh") and begin[4:] in (b"\x31\x41\x59\x26\x53\x59", b"\x17\x72\x45\x38\x50\x90"):
        return bz2.BZ2File(file)
    if begin.startswith(b"\xfd7zXZ\x00"):
        return lzma.LZMAFile(file)
    if begin.startswith(b"\x28\xb5\x2f\xfd"):
        return _Zstandard(file)
    return file
