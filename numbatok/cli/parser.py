"""The commands of the command line and their arguments."""

import argparse
import sys
from typing import Any, NoReturn

from numbatok import __version__
from numbatok.cli import commands
from numbatok.displays import LIMIT
from numbatok.displays.escapes import printable


class _Parser(argparse.ArgumentParser):
    """One whose ``--help`` fails where it cannot be written: argparse says nothing of that, and exits with 0."""

    def error(self, message: str) -> NoReturn:
        """Say what is wrong with the command, whatever stands in its arguments."""
        super().error(printable(message))

    def _print_message(self, message: str, file: Any = None) -> None:
        if file is not None and file is sys.stdout:
            file.write(message)
        else:
            super()._print_message(message, file)


def make_parser() -> _Parser:
    """All commands and their arguments."""
    parser = _Parser(prog="numbatok", description="Exact byte-level BPE tokenization, fast.")
    parser.add_argument("--version", action="version", version=f"numbatok {__version__}")
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    vocabulary = _Parser(add_help=False)
    vocabulary.add_argument(
        "-t",
        "--tokenizer",
        default="gpt2",
        metavar="NAME",
        help="an encoding by name, or the path of a tokenizer.json (default: gpt2)",
    )
    reading = _Parser(add_help=False)
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

    def command(name: str, function: Any, summary: str, *parents: _Parser) -> _Parser:
        added = subparsers.add_parser(name, help=summary, description=summary, parents=list(parents))
        added.set_defaults(command=function)
        return added

    encode = command("encode", commands.encode, "write the token ids of files", vocabulary, reading)
    encode.add_argument(
        "files",
        nargs="+",
        metavar="FILE",
        help="a file of UTF-8 text, or - for standard input; into a folder also JSON Lines, Parquet and Arrow files, "
        "compressed ones, directories and patterns",
    )
    encode.add_argument(
        "-o",
        "--output",
        type=_output,
        metavar="OUT",
        help="write the ids of all files to one NumPy file (1-D, uint32; - for standard output) instead of a line of "
        "text for each; or documents to shards in a folder: with an option for it, where OUT ends with /, or has no "
        "suffix and a FILE is a directory, compressed, or of documents by its name",
    )
    _add_corpus_options(encode)
    decode = command("decode", commands.decode, "write the bytes of token ids", vocabulary)
    decode.add_argument(
        "files",
        nargs="*",
        metavar="FILE",
        default=["-"],
        help="ids with white space between, or a .npy file of them; - for standard input (the default)",
    )
    decode.add_argument("--skip-special", action="store_true", help="leave special tokens out")
    count = command(
        "count",
        commands.count,
        "count tokens: for each file its tokens, bytes and name, then the total",
        vocabulary,
        reading,
    )
    count.add_argument("files", nargs="+", metavar="FILE", help="a file of UTF-8 text, or - for standard input")
    show = command(
        "show",
        commands.show,
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
    warmup = command("warmup", commands.warmup, "compile kernels ahead, so that nothing waits for it later")
    warmup.add_argument(
        "-t",
        "--tokenizer",
        metavar="NAME",
        help="compile only what this encoding or tokenizer.json needs (default: all kernels)",
    )
    warmup.add_argument("-v", "--verbose", action="store_true", help="say how long each kernel took")
    return parser


def _add_corpus_options(encode: _Parser) -> None:
    """The options of ``encode`` into a folder, which ``numbatok.pipelines.encode_files`` tells more of."""
    group = encode.add_argument_group(
        "into a folder",
        "Shards appear when they are whole, with a manifest.json at the end. The same command again goes on with what "
        "was broken off.",
    )
    group.add_argument(
        "--format",
        choices=("bin", "npy", "megatron", "parquet", "arrow"),
        help="of the shards: flat ids with offsets beside them (bin, the default, or npy), Megatron-LM's pair, "
        "or lists of ids in a table",
    )
    group.add_argument(
        "--input-format", choices=("text", "jsonl", "parquet", "arrow"), help="(default: by each file's name)"
    )
    group.add_argument(
        "--separator",
        type=_unescaped,
        metavar="TEXT",
        help=r"what stands between the documents of text files; \n and other escapes are known (default: each file is "
        "one document)",
    )
    group.add_argument("--lines", action="store_true", help=r"each line of text is a document: --separator '\n'")
    group.add_argument("--field", metavar="NAME", help="the field or column that holds the text (default: text)")
    group.add_argument(
        "--columns", metavar="NAME,NAME", help="fields or columns that Parquet and Arrow shards carry along"
    )
    group.add_argument("--dtype", choices=("uint16", "uint32"), help="of the ids (default: what the vocabulary needs)")
    group.add_argument(
        "--append-eos",
        nargs="?",
        const=True,
        metavar="TOKEN",
        help="put the token that ends documents, or this one, after each",
    )
    group.add_argument("--shard-size", type=_size, metavar="SIZE", help="of ids, as 200MB or 2GiB (default: 512MiB)")
    group.add_argument(
        "--memory",
        type=_size,
        metavar="SIZE",
        help="that may be taken, 640MiB or more (default: 1GiB, and more where threads are many)",
    )
    group.add_argument(
        "--on-error",
        choices=("raise", "skip"),
        help="what cannot be read or encoded: stop (the default), or leave it out, say so and count it",
    )
    group.add_argument("--threads", type=int, metavar="N", help="that encode (default: the cores)")
    group.add_argument("--overwrite", action="store_true", help="begin anew where OUT holds another run's output")


_UNITS = {"": 1, "B": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_UNITS |= {f"{unit}B": count for unit, count in _UNITS.items() if unit not in ("", "B")}
_UNITS |= {"KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30, "TIB": 1 << 40}


def _size(text: str) -> int:
    """A number of bytes, with a unit or without."""
    digits = text.rstrip("BKMGTIbkmgti ")
    unit = text[len(digits) :].strip().upper()
    if not (digits.isascii() and digits.isdigit()) or unit not in _UNITS:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a size; wanted bytes, or a number with a unit as 200MB, 2GiB"
        )
    return int(digits) * _UNITS[unit]


def _unescaped(text: str) -> str:
    try:
        return text.encode("latin-1", "backslashreplace").decode("unicode_escape")
    except UnicodeDecodeError as error:
        raise argparse.ArgumentTypeError(f"{text!r} has an escape that is not known: {error.reason}") from None


def _limit(text: str) -> int | None:
    if not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a number of tokens to show; wanted 1 or more, or 0 to show all"
        )
    return int(text) or None


def _output(name: str) -> str:
    if not name:
        raise argparse.ArgumentTypeError("the name is empty; wanted that of a file, or - for standard output")
    return name
