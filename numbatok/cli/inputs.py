"""What goes into a command: a tokenizer, files of text, files of ids."""

import argparse
import io
import mmap
import os
import stat
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from numbatok.cli.messages import Failure, about, say, watched
from numbatok.displays.escapes import printable

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from numbatok.tokenizer import Tokenizer

BLOCK_BYTES = 1 << 20  # of ids as text, read at once
_SPACES = (b" ", b"\n", b"\t", b"\r", b"\v", b"\f")  # those of bytes.split


def tokenizer_named(name: str) -> "Tokenizer":
    """The tokenizer that ``-t`` names."""
    from numbatok.loading.embedded import ENCODINGS, get_encoding
    from numbatok.tokenizer import Tokenizer

    if name not in ENCODINGS and not os.path.lexists(name) and not name.endswith(".json"):
        raise Failure(
            f"{printable(name)}: neither an encoding ({', '.join(sorted(ENCODINGS))}) nor the path of a tokenizer.json"
        )
    with about(name):
        return get_encoding(name) if name in ENCODINGS else Tokenizer.from_file(name)


def text_options(args: argparse.Namespace) -> dict[str, Any]:
    """The keyword arguments of encoding calls that ``--special`` and ``--errors`` stand for."""
    return {
        "allowed_special": "all" if args.special == "all" else (),
        "disallowed_special": "all" if args.special == "error" else (),
        "errors": args.errors,
    }


def read(name: str) -> memoryview:
    """The bytes of a file, in place: a plain file is mapped, so a huge one costs no memory of its own."""
    with about(name):
        if name == "-":
            if sys.stdin is None:
                raise ValueError("is closed")
            if sys.stdin.isatty() and watched():
                say(f"reading standard input, until {'Ctrl-Z and Enter' if os.name == 'nt' else 'Ctrl-D'}")
            return memoryview(sys.stdin.buffer.read())
        with open(name, "rb") as file:
            status = os.fstat(file.fileno())
            if stat.S_ISREG(status.st_mode) and status.st_size:
                with suppress(OSError):  # a file system that cannot map
                    return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
            return memoryview(file.read())


def size_ahead(name: str) -> int | None:
    """The bytes of a plain file, 0 for what is not there, None for what is known only once it is read."""
    if name == "-":
        return None
    try:
        status = os.stat(name)
    except (OSError, ValueError):
        return 0
    return status.st_size if stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode) else None


def parse_ids(data: memoryview, vocab_size: int) -> "npt.NDArray[np.integer[Any]]":
    """The ids in a .npy file or in text; ValueError names the first that is none, and its position."""
    import numpy as np

    if bytes(data[:6]) == b"\x93NUMPY":
        try:
            array: npt.NDArray[Any] = np.load(io.BytesIO(data), allow_pickle=False)
        except (ValueError, EOFError, TypeError) as error:
            raise ValueError(f"a .npy file that cannot be read: {error}") from None
        if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
            raise ValueError(
                f"a .npy file of {array.ndim} dimensions and type {array.dtype}; wanted integers in one dimension"
            )
        return array
    blocks, position, begin = [np.empty(0, np.int64)], 0, 0
    while begin < len(data):
        block = bytes(data[begin : begin + BLOCK_BYTES])
        if begin + len(block) < len(data):  # up to the last white space: not through an id, unless it fills the block
            end = 1 + max(block.rfind(space) for space in _SPACES)
            block = block[: end or len(block)]
        begin += len(block)
        words = block.split()
        try:
            if block.translate(None, b"-0123456789" + b"".join(_SPACES)):
                raise ValueError  # int() takes more than that: "1_000", "+1"
            blocks.append(np.array(list(map(int, words)), np.int64))
        except (ValueError, OverflowError):
            raise _bad_id(words, position, vocab_size) from None
        position += len(words)
    return np.concatenate(blocks)


def _bad_id(words: list[bytes], position: int, vocab_size: int) -> ValueError:
    """The error for the first of the words that is no id; ``position`` is that of ``words[0]``."""
    bad, word = next((i, word) for i, word in enumerate(words) if not (word.isdigit() and int(word[:20]) < 1 << 63))
    text = printable(word[:40].decode("utf-8", "surrogateescape")) + ("..." if len(word) > 40 else "")
    if word.removeprefix(b"-").isdigit():
        return ValueError(f"id {text} at position {position + bad} is not in this vocabulary of {vocab_size} tokens")
    return ValueError(f"'{text}' at position {position + bad} is not an id; wanted numbers with white space between")
