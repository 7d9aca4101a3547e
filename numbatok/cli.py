"""The command line: ``numbatok encode``, ``decode``, ``count``, ``show`` and ``warmup``.

Results go to standard output, everything else to standard error. Exit codes: 0 for success, 1 for a file or an id that
cannot be used (one line says which and why), 2 for a wrong command, 130 after Ctrl-C, 141 where the reader of the
output has gone. NumPy and Numba are imported by the commands that need them, so that ``--help`` is there at once.
"""

import argparse
import io
import mmap
import os
import shutil
import stat
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any, BinaryIO, NoReturn

from numbatok import __version__, notices
from numbatok.display import LIMIT, color_wanted, printable, show_terminal

if TYPE_CHECKING:
    from numbatok.ids import Ids
    from numbatok.tokenizer import Tokenizer

FAILED, INTERRUPTED, READER_GONE = 1, 130, 141
BIG_FILE = 8 << 20  # bytes from which somebody at a terminal is told what takes so long
BLOCK_IDS = 1 << 16  # ids that become text at once: little memory, and a reader like `head` can end it early
BLOCK_BYTES = 1 << 20  # of ids as text, read at once

BEGIN = """\
numbatok turns text into the token ids of GPT-2 and back, exactly and fast. To begin:

  numbatok count *.txt                         how many tokens each file has
  numbatok encode notes.txt -o notes.npy       token ids, for numpy.load
  echo "Hello tokenizer" | numbatok show -     where a text is cut, and into which tokens

numbatok --help lists all commands, numbatok COMMAND --help what each takes.
"""


class Failure(Exception):
    """Something that a user can put right: the line that says what."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command (by default that of the process) and return its exit code."""
    notices.speak_to_terminal = True
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        try:
            code = _run(arguments)
            if sys.stdout is not None:
                sys.stdout.flush()  # here, where a reader that has gone, or a full disk, can still be answered
            return code
        except OSError as error:
            if isinstance(error, BrokenPipeError):
                raise
            raise Failure(f"standard output: {_reason(error)}") from None
    except Failure as failure:
        _say(str(failure))
        _discard_output()
        return FAILED
    except BrokenPipeError:
        _discard_output()
        return READER_GONE
    except KeyboardInterrupt:
        _discard_output()
        return INTERRUPTED


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
    number = int(text)
    if number < 0:
        raise ValueError
    return number or None


# --- commands ---


def _encode(args: argparse.Namespace) -> int:
    tokenizer = _tokenizer(args.tokenizer)
    options = _text_options(args)
    started, total_ids, total_bytes = time.perf_counter(), 0, 0
    with _IdFile(args.output) if args.output else _IdLines() as output:
        for name, data in _texts(args.files, "encoding", quiet=not args.output and sys.stdout.isatty()):
            with _about(name):
                ids = tokenizer.encode(data, **options)
            output.write(ids)
            total_ids, total_bytes = total_ids + len(ids), total_bytes + len(data)
    if args.output and _watched():
        seconds = time.perf_counter() - started
        _say(f"{printable(args.output)}: {total_ids:,} ids of {_size(total_bytes)} in {seconds:.1f} s")
    return 0


def _decode(args: argparse.Namespace) -> int:
    tokenizer = _tokenizer(args.tokenizer)
    for name in args.files:
        with _about(name):
            ids = _read_ids(_read(name), tokenizer.vocab_size)
            content = tokenizer.decode_bytes(ids, skip_special_tokens=args.skip_special)
        _stdout().write(content)
    return 0


def _count(args: argparse.Namespace) -> int:
    tokenizer = _tokenizer(args.tokenizer)
    options = _text_options(args)
    # Columns as wide as the files' sizes need, so that each line can be written at once; what has no size may be long.
    sizes = [_size_of(name) for name in args.files]
    width = 7 if None in sizes else len(str(sum(filter(None, sizes))))
    total_tokens = total_bytes = failures = 0
    names = iter(args.files)
    for name in names:
        try:
            for _, data in _texts([name], "counting", quiet=False):
                with _about(name):
                    tokens = tokenizer.count(data, **options)
        except Failure as failure:  # as wc does: the other files are counted all the same
            _say(str(failure))
            failures += 1
            continue
        _print(f"{tokens:>{width}} {len(data):>{width}} {printable(name)}")
        total_tokens, total_bytes = total_tokens + tokens, total_bytes + len(data)
    if len(args.files) > 1:
        _print(f"{total_tokens:>{width}} {total_bytes:>{width}} total")
    return FAILED if failures else 0


def _show(args: argparse.Namespace) -> int:
    tokenizer = _tokenizer(args.tokenizer)
    options = _text_options(args)
    errors = options.pop("errors")
    color = color_wanted(sys.stdout)
    for name, data in _texts(args.files, "reading", quiet=False):
        with _about(name):
            text = data if errors == "strict" else bytes(data).decode("utf-8", errors)
            width = shutil.get_terminal_size().columns
            lines = show_terminal(tokenizer, text, color=color, width=width, limit=args.limit, **options)
        if len(args.files) > 1:
            _print(f"==> {printable(name)} <==")
        _print(lines, end="")
    return 0
