"""What a command says to people, all of it on standard error."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING

from numbatok.displays.escapes import printable

if TYPE_CHECKING:
    from numbatok.tokenizer import Tokenizer

FAILED = 1
BIG_FILE = 8 << 20  # bytes from which somebody at a terminal is told what takes so long


class Failure(Exception):
    """Something that a user can put right: the line that says what."""


def say(message: str) -> None:
    """Write a line for people."""
    if sys.stderr is not None:
        sys.stderr.write(f"numbatok: {message}\n")
        sys.stderr.flush()


def watched() -> bool:
    """Whether standard error is a terminal: only then is there progress to see."""
    return sys.stderr is not None and sys.stderr.isatty()


def with_bar(names: Sequence[str], visible: bool) -> Iterable[str]:
    """The names, with a bar of files done where that can be seen, takes a while and tqdm is installed."""
    if not (visible and watched() and len(names) > 1):
        return names
    try:
        tqdm = import_module("tqdm").tqdm
    except ImportError:
        return names
    bar: Iterable[str] = tqdm(names, unit=" files", delay=0.5, leave=False, file=sys.stderr)
    return bar


@contextmanager
def announced(tokenizer: "Tokenizer", verb: str, name: str, size: int) -> Iterator[None]:
    """Say what is going on while one call works through a big file, then take it back."""
    if size < BIG_FILE or not watched():
        yield
        return
    tokenizer.count("")  # a compile has a line of its own, before this one
    width = terminal_columns() - 1
    line = f"{verb} {shown(name)}, {size_for_people(size)} ..."[:width]
    sys.stderr.write(f"\r{line:{width}}")  # over the bar, if there is one
    sys.stderr.flush()
    try:
        yield
    finally:
        sys.stderr.write(f"\r{'':{width}}\r")
        sys.stderr.flush()


def terminal_columns() -> int:
    """The width of the terminal."""
    from shutil import get_terminal_size  # imports every compressor there is, which --help can do without

    return get_terminal_size().columns


def size_for_people(count: int) -> str:
    """A number of bytes for people."""
    for unit, name in ((10**9, "GB"), (10**6, "MB"), (10**3, "kB")):
        if count >= unit:
            return f"{count / unit:.{0 if count >= 10 * unit else 1}f} {name}"
    return f"{count} bytes"


def shown(name: str) -> str:
    """The name of an input file for people."""
    return "standard input" if name == "-" else printable(name) or "''"


def reason(error: OSError) -> str:
    """What the system says of an error, without the file's name."""
    return error.strerror or str(error)


@contextmanager
def about(name: str) -> Iterator[None]:
    """Turn what can be wrong with a file into a :class:`Failure` that names it."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        message = reason(error)
    except MemoryError as error:
        message = str(error) or "not enough memory"
    except UnicodeDecodeError as error:
        # The rest of the library's reason is a remedy for callers.
        fault = error.reason.partition(";")[0]
        message = (
            f"not UTF-8 at byte {error.start} (0x{error.object[error.start]:02x}, {fault}); "
            "--errors replace reads such bytes as U+FFFD"
        )
    except ValueError as error:
        message, found, _ = str(error).removeprefix(f"{name}: ").partition(". To encode it as its id, pass")
        if found:
            message += "; --special all encodes it as its id, --special none as ordinary text"
    except RuntimeError as error:
        if "NUMBA_DISABLE_JIT" not in str(error):
            raise
        raise Failure(str(error)) from None
    else:
        return
    raise Failure(f"{shown(name)}: {printable(message)}")
