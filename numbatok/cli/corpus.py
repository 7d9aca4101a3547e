"""``numbatok encode`` into a folder: what ``numbatok.pipelines.encode_files`` does, for people."""

import argparse
import logging
import os
from typing import Any

from numbatok.cli.inputs import text_options, tokenizer_named
from numbatok.cli.messages import Failure, reason, say, shown
from numbatok.displays.escapes import printable
from numbatok.notices import log

_OPTIONS = {
    "format": "output_format",
    "input_format": "input_format",
    "separator": "separator",
    "field": "field",
    "dtype": "dtype",
    "append_eos": "append_eos",
    "shard_size": "shard_size",
    "memory": "memory",
    "on_error": "on_error",
    "threads": "num_threads",
}


def wants_folder(args: argparse.Namespace) -> bool:
    """Whether a command is about shards in a folder, and not about one file of ids."""
    output = args.output
    given = [name for name in (*_OPTIONS, "columns") if getattr(args, name) is not None]
    given += [name for name in ("lines", "overwrite") if getattr(args, name)]
    into_folder = output is not None and output.endswith(("/", os.sep))
    if output is not None and os.path.splitext(output)[1] == "" and output != "-":
        into_folder |= any(map(_is_corpus, args.files))
    if given and output is None:
        raise Failure(f"--{given[0].replace('_', '-')}: is for output into a folder; name one with -o")
    if given and output == "-":
        raise Failure("-: is standard output, and shards go into a folder; name one with -o")
    if output is not None and not given and not into_folder:
        suffix = os.path.splitext(output)[1]
        if suffix in (".bin", ".idx", ".parquet", ".arrow"):
            raise Failure(
                f"{printable(output)}: -o writes a .npy file; for {suffix} files name a folder, and the format: "
                f"-o FOLDER --format {'megatron' if suffix == '.idx' else suffix[1:]}"
            )
    return bool(given or into_folder)


def _is_corpus(name: str) -> bool:
    """Whether an input is more than one text as it is: a directory, a compressed file, or one of documents."""
    from numbatok.pipelines.inputs import format_by_name

    return os.path.isdir(name) or format_by_name(name) != ("text", False)


class _Faults(logging.Handler):
    """Says what is left out."""

    def emit(self, record: logging.LogRecord) -> None:
        say(printable(record.getMessage()))


def _by_options(message: str) -> str:
    """A message that names options where the library's names arguments."""
    for argument, option in (
        ("overwrite=True", "--overwrite"),
        ("append_eos= the one", "--append-eos with the one"),
        ("memory must", "--memory must"),
    ):
        message = message.replace(argument, option)
    return message


def encode_corpus(args: argparse.Namespace) -> int:
    """Write documents to shards in a folder."""
    from numbatok.pipelines.run import encode_files

    if args.lines and args.separator is not None:
        raise Failure("--lines and --separator: one of them can be used")
    options: dict[str, Any] = {
        name: getattr(args, option) for option, name in _OPTIONS.items() if getattr(args, option) is not None
    }
    if args.lines:
        options["separator"] = "\n"
    if args.columns is not None:
        options["columns"] = args.columns.split(",")
    tokenizer = tokenizer_named(args.tokenizer)
    handler = _Faults(logging.WARNING)
    log.addHandler(handler)
    try:
        report = encode_files(
            tokenizer, args.files, args.output, overwrite=args.overwrite, **options, **text_options(args)
        )
    except BrokenPipeError:
        raise
    except OSError as error:
        name = error.filename if isinstance(error.filename, str) else args.output
        raise Failure(f"{shown(name)}: {printable(_by_options(reason(error)))}") from None
    except (ValueError, TypeError, ImportError, MemoryError) as error:
        raise Failure(printable(_by_options(str(error) or "not enough memory"))) from None
    except RuntimeError as error:
        if "NUMBA_DISABLE_JIT" not in str(error):
            raise
        raise Failure(str(error)) from None
    finally:
        log.removeHandler(handler)
    say(printable(str(report)))
    return 0
