"""The command line: ``numbatok encode``, ``decode``, ``count``, ``show`` and ``warmup``.

Results go to standard output, everything else to standard error. Exit codes: 0 for success, 1 for a file or an id that
cannot be used (one line says which and why), 2 for a wrong command, 130 after Ctrl-C, 141 where the reader of the
output has gone. NumPy and Numba are imported by the commands that need them, so that ``--help`` is there at once.
"""

import argparse
import io
import mmap
import os
import stat
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any, TextIO

from numbatok import __version__, notices
from numbatok.display import LIMIT, color_wanted, printable, show_terminal

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from numbatok.ids import Ids
    from numbatok.tokenizer import Tokenizer

FAILED, INTERRUPTED, READER_GONE = 1, 130, 141
BIG_FILE = 8 << 20  # bytes from which somebody at a terminal is told what takes so long
BLOCK_IDS = 1 << 16  # ids that become text at once: little memory, and a reader like `head` can end it early
BLOCK_BYTES = 1 << 20  # of ids as text, read at once
_SPACES = (b" ", b"\n", b"\t", b"\r", b"\v", b"\f")  # those of bytes.split

BEGIN = """\
numbatok turns text into the token ids of GPT-2 and back, exactly and fast. To begin:

  numbatok count *.txt                         how many tokens each file has
  numbatok encode notes.txt -o notes.npy       token ids, for numpy.load
  echo "Hello tokenizer" | numbatok show       where a text is cut, and into which tokens

numbatok --help lists all commands, numbatok COMMAND --help what each takes.
"""


class Failure(Exception):
    """Something that a user can put right: the line that says what."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command (by default that of the process) and return its exit code."""
    notices.speak_to_terminal = True
    try:
        try:
            code = _run(list(sys.argv[1:] if argv is None else argv))
            _flush()  # here, where a reader that has gone, or a full disk, can still be answered
        except Failure as failure:
            _flush()
            _say(str(failure))
            code = FAILED
        return code
    except BrokenPipeError:
        code = READER_GONE
    except KeyboardInterrupt:
        code = INTERRUPTED
    except OSError as error:  # those of named files are Failures by now
        _say(f"standard output: {_reason(error)}")
        code = FAILED
    _discard_output()
    return code


def _run(arguments: list[str]) -> int:
    if not arguments:
        sys.stdout.write(BEGIN)
        return 0
    try:
        args = _parser().parse_args(arguments)
    except SystemExit as stop:  # --help, --version or a wrong command: argparse has said it
        return stop.code if isinstance(stop.code, int) else FAILED
    command: Any = args.command
    code: int = command(args)
    return code


def _parser() -> argparse.ArgumentParser:
    """All commands and their arguments."""
    parser = argparse.ArgumentParser(prog="numbatok", description="Exact byte-level BPE tokenization, fast.")
    parser.add_argument("--version", action="version", version=f"numbatok {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    vocabulary = argparse.ArgumentParser(add_help=False)
    vocabulary.add_argument(
        "-t",
        "--tokenizer",
        default="gpt2",
        metavar="NAME",
        help="an encoding by name, or the path of a tokenizer.json (default: gpt2)",
    )
    reading = argparse.ArgumentParser(add_help=False)
    reading.add_argument(
        "--special",
        "--allow-special",
        choices=("all", "none", "error"),
        default="all",
        help="special tokens in the text, such as <|endoftext|>: take all as the ids they have (the default), none "
        "(they are ordinary text), or stop with an error at the first",
    )
    reading.add_argument(
        "--errors",
        choices=("strict", "replace"),
        default="strict",
        help="bytes that are not UTF-8: stop with an error (the default), or read each as U+FFFD",
    )

    def command(name: str, function: Any, summary: str, *parents: argparse.ArgumentParser) -> argparse.ArgumentParser:
        added = commands.add_parser(name, help=summary, description=summary, parents=list(parents))
        added.set_defaults(command=function)
        return added

    encode = command("encode", _encode, "write the token ids of files", vocabulary, reading)
    encode.add_argument("files", nargs="+", metavar="FILE", help="a file of UTF-8 text, or - for standard input")
    encode.add_argument(
        "-o",
        "--output",
        metavar="OUT.npy",
        help="write the ids of all files to one NumPy file (1-D, uint32) instead of a line of text for each",
    )
    decode = command("decode", _decode, "write the bytes of token ids", vocabulary)
    decode.add_argument(
        "files",
        nargs="*",
        metavar="FILE",
        default=["-"],
        help="ids with white space between, or a .npy file of them; - for standard input (the default)",
    )
    decode.add_argument("--skip-special", action="store_true", help="leave special tokens out")
    count = command(
        "count", _count, "count tokens: for each file its tokens, bytes and name, then the total", vocabulary, reading
    )
    count.add_argument("files", nargs="+", metavar="FILE", help="a file of UTF-8 text, or - for standard input")
    show = command(
        "show",
        _show,
        "show pretokens and tokens, coloured on a terminal (NO_COLOR and FORCE_COLOR are heeded), else as a table",
        vocabulary,
        reading,
    )
    show.add_argument(
        "files",
        nargs="*",
        metavar="FILE",
        default=["-"],
        help="a file of UTF-8 text; - for standard input (the default)",
    )
    show.add_argument(
        "-n",
        "--limit",
        type=_limit,
        default=LIMIT,
        metavar="N",
        help=f"tokens to show of each file (default: {LIMIT}; 0 for all)",
    )
    warmup = command("warmup", _warmup, "compile all kernels ahead, so that nothing waits for it later")
    warmup.add_argument("-v", "--verbose", action="store_true", help="say how long each kernel took")
    return parser


def _limit(text: str) -> int | None:
    if not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of tokens; wanted 1 or more, or 0 for all")
    return int(text) or None


# --- commands ---


def _encode(args: argparse.Namespace) -> int:
    tokenizer = _tokenizer(args.tokenizer)
    options = _text_options(args)
    started, total_ids, total_bytes = time.perf_counter(), 0, 0
    with _npy_file(args.output) if args.output else nullcontext(_write_line) as write:
        for name in _with_bar(args.files, visible=bool(args.output) or not _stdout().isatty()):
            data = _read(name)
            with _about(name), _announced(tokenizer, "encoding", name, len(data)):
                ids = tokenizer.encode(data, **options)
            write(ids)
            total_ids, total_bytes = total_ids + len(ids), total_bytes + len(data)
    if args.output and _watched():
        seconds = time.perf_counter() - started
        _say(f"{printable(args.output)}: {total_ids:,} ids of {_size(total_bytes)} in {seconds:.1f} s")
    return 0


def _decode(args: argparse.Namespace) -> int:
    tokenizer = _tokenizer(args.tokenizer)
    for name in args.files:
        data = _read(name)
        with _about(name):
            ids = _parse_ids(data, tokenizer.vocab_size)
            content = tokenizer.decode_bytes(ids, skip_special_tokens=args.skip_special)
        _stdout().buffer.write(content)
    return 0


def _count(args: argparse.Namespace) -> int:
    tokenizer = _tokenizer(args.tokenizer)
    options = _text_options(args)
    # As wide as the files' sizes need, so that each line can be written at once; what has no size yet may be long.
    sizes = [_size_ahead(name) for name in args.files]
    width = 7 if None in sizes else len(str(sum(filter(None, sizes))))
    total_tokens, total_bytes, code = 0, 0, 0
    for name in _with_bar(args.files, visible=not _stdout().isatty()):
        try:
            data = _read(name)
            with _about(name), _announced(tokenizer, "counting", name, len(data)):
                tokens = tokenizer.count(data, **options)
        except Failure as failure:  # the other files are counted all the same, as wc does
            _flush()
            _say(str(failure))
            code = FAILED
            continue
        _write(f"{tokens:>{width}} {len(data):>{width}} {printable(name)}\n")
        total_tokens, total_bytes = total_tokens + tokens, total_bytes + len(data)
    if len(args.files) > 1:
        _write(f"{total_tokens:>{width}} {total_bytes:>{width}} total\n")
    return code


def _show(args: argparse.Namespace) -> int:
    tokenizer = _tokenizer(args.tokenizer)
    options = _text_options(args)
    errors = options.pop("errors")
    color, width = color_wanted(_stdout()), _terminal_columns()
    if color and os.name == "nt":
        os.system("")  # makes the older Windows console obey colours
    for name in args.files:
        data = _read(name)
        with _about(name), _announced(tokenizer, "encoding", name, len(data)):
            text = data if errors == "strict" else bytes(data).decode("utf-8", errors)
            lines = show_terminal(tokenizer, text, color=color, width=width, limit=args.limit, **options)
        if len(args.files) > 1:
            _write(f"==> {printable(name)} <==\n")
        _write(lines)
    return 0


def _warmup(args: argparse.Namespace) -> int:
    notices.expect_compiling()
    if _watched():
        _say("compiling all kernels, ten to twenty seconds unless they are compiled already")
    started = time.perf_counter()
    import numbatok.engine  # makes all kernels known
    from numbatok.kernels.jit import kernels

    compiled, kept = 0, None
    for kernel in sorted(kernels.values(), key=lambda kernel: kernel.name):
        began = time.perf_counter()
        with _about(kernel.name):
            stats = kernel.compiled().stats
        fresh = bool(stats.cache_misses)
        compiled, kept = compiled + fresh, stats.cache_path
        if args.verbose:
            _write(f"{time.perf_counter() - began:6.2f} s  {'compiled' if fresh else 'read':8}  {kernel.name}\n")
    already = len(kernels) - compiled
    _write(
        f"{len(kernels)} kernels are ready after {time.perf_counter() - started:.1f} s: {compiled} compiled, "
        f"{already} compiled before; they are kept in {printable(str(kept))}\n"
        if kept
        else f"{len(kernels)} kernels compiled in {time.perf_counter() - started:.1f} s, but not kept\n"
    )
    return 0


# --- what goes in ---


def _tokenizer(name: str) -> "Tokenizer":
    """The tokenizer that ``-t`` names."""
    from numbatok.loading.embedded import ENCODINGS, get_encoding
    from numbatok.tokenizer import Tokenizer

    if name not in ENCODINGS and not os.path.lexists(name) and not name.endswith(".json"):
        raise Failure(
            f"{printable(name)}: neither an encoding ({', '.join(sorted(ENCODINGS))}) nor the path of a tokenizer.json"
        )
    with _about(name):
        return get_encoding(name) if name in ENCODINGS else Tokenizer.from_file(name)


def _text_options(args: argparse.Namespace) -> dict[str, Any]:
    """The keyword arguments of encoding calls that ``--special`` and ``--errors`` stand for."""
    return {
        "allowed_special": "all" if args.special == "all" else (),
        "disallowed_special": "all" if args.special == "error" else (),
        "errors": args.errors,
    }


def _read(name: str) -> memoryview:
    """The bytes of a file, in place: a plain file is mapped, so a huge one costs no memory of its own."""
    with _about(name):
        if name == "-":
            if sys.stdin is None:
                raise ValueError("is closed")
            if sys.stdin.isatty() and _watched():
                _say(f"reading standard input, until {'Ctrl-Z and Enter' if os.name == 'nt' else 'Ctrl-D'}")
            return memoryview(sys.stdin.buffer.read())
        with open(name, "rb") as file:
            status = os.fstat(file.fileno())
            if stat.S_ISREG(status.st_mode) and status.st_size:
                with suppress(OSError):  # a file system that cannot map
                    return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
            return memoryview(file.read())


def _size_ahead(name: str) -> int | None:
    """The bytes of a plain file, 0 for what is not there, None for what is known only once it is read."""
    if name == "-":
        return None
    try:
        status = os.stat(name)
    except (OSError, ValueError):
        return 0
    return status.st_size if stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode) else None


def _parse_ids(data: memoryview, vocab_size: int) -> "npt.NDArray[np.integer[Any]]":
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


# --- what goes out ---


def _stdout() -> TextIO:
    if sys.stdout is None:
        raise Failure("standard output: is closed")
    return sys.stdout


def _write(text: str) -> None:
    """Write lines for people; characters that the terminal's encoding lacks become escapes."""
    stream = _stdout()
    stream.write(text.encode(stream.encoding, "backslashreplace").decode(stream.encoding))


def _write_line(ids: "Ids") -> None:
    """Write ids as a line of text."""
    stream = _stdout().buffer
    for begin in range(0, len(ids), BLOCK_IDS):
        stream.write(b" " * bool(begin) + " ".join(map(str, ids[begin : begin + BLOCK_IDS].tolist())).encode())
    stream.write(b"\n")


@contextmanager
def _npy_file(path: str) -> "Iterator[Callable[[Ids], None]]":
    """A function that adds ids to a 1-D uint32 .npy file, which gets its name when all is written, or never."""
    target = os.path.realpath(path)
    replaced = not os.path.exists(target) or os.path.isfile(target)  # else a device such as /dev/null
    written = f"{target}.{os.urandom(4).hex()}.tmp" if replaced else target
    count = 0

    def write(ids: "Ids") -> None:
        nonlocal count
        with _about(path):
            file.write(ids.astype("<u4", copy=False).data)
        count += len(ids)

    with _about(path), open(written, "xb" if replaced else "wb") as file:
        try:
            file.write(_npy_header(0))
            yield write
            file.seek(0)
            file.write(_npy_header(count))
            file.close()
            if replaced:
                os.replace(written, target)
        except BaseException:
            with suppress(OSError):  # what could not be written before cannot be now
                file.close()
            if replaced:
                with suppress(OSError):
                    os.unlink(written)
            raise


def _npy_header(count: int) -> bytes:
    """The 128 bytes before the ids: version 1.0 of NumPy's format, whose length does not depend on ``count``."""
    fields = f"{{'descr': '<u4', 'fortran_order': False, 'shape': ({count},), }}"
    return b"\x93NUMPY\x01\x00\x76\x00" + fields.encode().ljust(117) + b"\n"


def _flush() -> None:
    if sys.stdout is not None:
        sys.stdout.flush()


def _discard_output() -> None:
    """Send what is left in standard output nowhere: at exit Python would try it again, and complain."""
    with suppress(AttributeError, OSError, ValueError):  # closed, or replaced by something without a descriptor
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


# --- what is said ---


def _say(message: str) -> None:
    if sys.stderr is not None:
        sys.stderr.write(f"numbatok: {message}\n")
        sys.stderr.flush()


def _watched() -> bool:
    """Whether standard error is a terminal: only then is there progress to see."""
    return sys.stderr is not None and sys.stderr.isatty()


def _with_bar(names: Sequence[str], visible: bool) -> Iterable[str]:
    """The names, with a bar of files done where that can be seen, takes a while and tqdm is installed."""
    if not (visible and _watched() and len(names) > 1):
        return names
    try:
        tqdm = import_module("tqdm").tqdm
    except ImportError:
        return names
    bar: Iterable[str] = tqdm(names, unit=" files", delay=0.5, leave=False, file=sys.stderr)
    return bar


@contextmanager
def _announced(tokenizer: "Tokenizer", verb: str, name: str, size: int) -> Iterator[None]:
    """Say what is going on while one call works through a big file, then take it back."""
    if size < BIG_FILE or not _watched():
        yield
        return
    tokenizer.count("")  # a compile has a line of its own, before this one
    width = _terminal_columns() - 1
    line = f"{verb} {_shown(name)}, {_size(size)} ..."[:width]
    sys.stderr.write(f"\r{line:{width}}")  # over the bar, if there is one
    sys.stderr.flush()
    try:
        yield
    finally:
        sys.stderr.write(f"\r{'':{width}}\r")
        sys.stderr.flush()


def _terminal_columns() -> int:
    from shutil import get_terminal_size  # imports every compressor there is, which --help can do without

    return get_terminal_size().columns


def _size(count: int) -> str:
    """A number of bytes for people."""
    for unit, name in ((10**9, "GB"), (10**6, "MB"), (10**3, "kB")):
        if count >= unit:
            return f"{count / unit:.{0 if count >= 10 * unit else 1}f} {name}"
    return f"{count} bytes"


def _shown(name: str) -> str:
    return "standard input" if name == "-" else printable(name)


def _reason(error: OSError) -> str:
    return error.strerror or str(error)


@contextmanager
def _about(name: str) -> Iterator[None]:
    """Turn what can be wrong with a file into a :class:`Failure` that names it."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        message = _reason(error)
    except MemoryError as error:
        message = str(error) or "not enough memory"
    except UnicodeDecodeError as error:
        # The rest of the library's reason is a remedy for callers.
        reason = error.reason.partition(";")[0]
        message = (
            f"not UTF-8 at byte {error.start} (0x{error.object[error.start]:02x}, {reason}); "
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
    raise Failure(f"{_shown(name)}: {printable(message)}")
