"""What comes out of a command: text, ids as text, ids as a NumPy file."""

import errno
import io
import os
import stat
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, BinaryIO, TextIO

from numbatok.cli.messages import Failure, about
from numbatok.displays.escapes import printable
from numbatok.npy import npy_header

if TYPE_CHECKING:
    from numbatok.ids import Ids

BLOCK_IDS = 1 << 16  # ids that become text at once: little memory, and a reader like `head` can end it early


@contextmanager
def whole_writes() -> Iterator[None]:
    """Let standard output write all that it is given.

    With PYTHONUNBUFFERED its buffer is the bare descriptor, which may take a part of what it is given and say so only
    in a result that nobody looks at, neither here nor in :mod:`io`.
    """
    stream = sys.stdout
    raw = getattr(stream, "buffer", None)
    if not isinstance(raw, io.RawIOBase):
        yield
        return
    whole = io.TextIOWrapper(io.BufferedWriter(raw), encoding=stream.encoding, errors=stream.errors)
    sys.stdout = whole
    try:
        yield
    finally:
        sys.stdout = stream
        with suppress(OSError, ValueError):
            whole.detach().detach()


def stdout() -> TextIO:
    """Standard output; Failure where it is closed."""
    if sys.stdout is None:
        raise Failure("standard output: is closed")
    return sys.stdout


def write_text(text: str) -> None:
    """Write lines for people; characters that the terminal's encoding lacks become escapes."""
    stream = stdout()
    stream.write(text.encode(stream.encoding, "backslashreplace").decode(stream.encoding))
    stream.flush()


def write_line(ids: "Ids") -> None:
    """Write ids as a line of text."""
    stream = stdout().buffer
    for begin in range(0, len(ids), BLOCK_IDS):
        stream.write(b" " * bool(begin) + " ".join(map(str, ids[begin : begin + BLOCK_IDS].tolist())).encode())
    stream.write(b"\n")
    flush()


def output_shown(path: str) -> str:
    """The name of an output file for people."""
    return "standard output" if path == "-" else printable(path)


@contextmanager
def npy_output(path: str, inputs: Sequence[str]) -> "Iterator[Callable[[Ids], None]]":
    """A function that adds ids to the 1-D uint32 .npy file that ``-o`` names.

    A plain file gets its name when all is written, or never. Whatever else is written at the end, since the number of
    ids comes before them: standard output (``-``, or a path that leads to it), a pipe or a device.
    """
    status = _status(path)
    _refuse_inputs(path, status, inputs)
    if path == "-" or (status is not None and _is_stdout(status)):
        with _collected(path, stdout().buffer) as write:
            yield write
    elif status is None or stat.S_ISREG(status.st_mode):
        with _replaced(path, status) as write:
            yield write
    else:
        with about(path), open(path, "wb") as file, _collected(path, file) as write:
            yield write


def _status(path: str) -> os.stat_result | None:
    """What ``-o`` leads to, or None where nothing is there yet."""
    try:
        return os.fstat(stdout().fileno()) if path == "-" else os.stat(path)
    except (OSError, ValueError):  # standard output without a descriptor among them
        return None


def _is_stdout(status: os.stat_result) -> bool:
    try:
        return os.path.samestat(status, os.fstat(sys.stdout.fileno()))
    except (AttributeError, OSError, ValueError):  # closed, or without a descriptor
        return False


def _refuse_inputs(path: str, status: os.stat_result | None, inputs: Sequence[str]) -> None:
    """Failure where the output is one of the files to be read."""
    if status is None or not (stat.S_ISREG(status.st_mode) or stat.S_ISFIFO(status.st_mode)):
        return
    for name in inputs:
        with suppress(OSError, ValueError, AttributeError):  # what cannot be read is told of when it is to be
            if os.path.samestat(status, os.fstat(sys.stdin.fileno()) if name == "-" else os.stat(name)):
                raise Failure(f"{output_shown(path)}: is to be read too; -o must lead to another file")


@contextmanager
def _collected(path: str, file: BinaryIO) -> "Iterator[Callable[[Ids], None]]":
    """A function that keeps ids until all are there, and then are written."""
    if file.isatty():
        raise Failure(f"{output_shown(path)}: is a terminal, which cannot show a .npy file; wanted a file or a pipe")
    parts: list[Ids] = []
    yield parts.append
    with nullcontext() if path == "-" else about(path):
        file.write(npy_header("<u4", sum(map(len, parts))))
        for ids in parts:
            file.write(ids.astype("<u4", copy=False).data)
        file.flush()


@contextmanager
def _replaced(path: str, status: os.stat_result | None) -> "Iterator[Callable[[Ids], None]]":
    """A function that adds ids to a plain file: a new one, or one in the place and with the mode of the old."""
    target = os.path.realpath(path)
    written = f"{target}.{os.urandom(4).hex()}.tmp"
    count = 0

    def create(name: str, flags: int) -> int:
        return os.open(name, flags, 0o666 if status is None else 0o600)  # nobody else's before it has its mode

    def write(ids: "Ids") -> None:
        nonlocal count
        with about(path):
            file.write(ids.astype("<u4", copy=False).data)
        count += len(ids)

    with about(path):
        if status is not None and not os.access(target, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        file = open(written, "xb", opener=create)  # noqa: SIM115, closed before it gets its name
    try:
        with about(path):
            file.write(npy_header("<u4", 0))
        yield write
        with about(path):
            file.seek(0)
            file.write(npy_header("<u4", count))
            file.close()
            if status is not None:
                _take_over(status, written)
            os.replace(written, target)
    except BaseException:
        with suppress(OSError):  # what could not be written before cannot be now
            file.close()
        with suppress(OSError):
            os.unlink(written)
        raise


def _take_over(status: os.stat_result, path: str) -> None:
    """Give a file the mode of another, and its owner where that is allowed."""
    if hasattr(os, "chown"):
        with suppress(OSError):
            os.chown(path, status.st_uid, status.st_gid)
    os.chmod(path, stat.S_IMODE(status.st_mode))


def flush() -> None:
    """Write what standard output still holds."""
    if sys.stdout is not None:
        sys.stdout.flush()


def discard_output() -> None:
    """Send what is left in standard output nowhere: at exit Python would try it again, and complain."""
    with suppress(AttributeError, OSError, ValueError):  # closed, or replaced by something without a descriptor
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
