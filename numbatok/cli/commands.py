"""What each command does."""

import argparse
import os
import time
from contextlib import nullcontext

from numbatok import notices
from numbatok.cli.corpus import encode_corpus, wants_folder
from numbatok.cli.inputs import parse_ids, read, size_ahead, text_options, tokenizer_named
from numbatok.cli.messages import (
    FAILED,
    Failure,
    about,
    announced,
    say,
    size_for_people,
    terminal_columns,
    watched,
    with_bar,
)
from numbatok.cli.outputs import flush, npy_output, output_shown, stdout, write_line, write_text
from numbatok.displays.escapes import printable
from numbatok.displays.terminal import color_wanted


def encode(args: argparse.Namespace) -> int:
    """Write the ids of files, each as a line of text, or all of them as one NumPy file, or as shards in a folder."""
    if wants_folder(args):
        return encode_corpus(args)
    tokenizer = tokenizer_named(args.tokenizer)
    options = text_options(args)
    started, total_ids, total_bytes = time.perf_counter(), 0, 0
    to_file = args.output is not None
    with npy_output(args.output, args.files) if to_file else nullcontext(write_line) as write:
        for name in with_bar(args.files, visible=to_file or not stdout().isatty()):
            data = read(name)
            with about(name), announced(tokenizer, "encoding", name, len(data)):
                ids = tokenizer.encode(data, **options)
            write(ids)
            total_ids, total_bytes = total_ids + len(ids), total_bytes + len(data)
    if to_file and watched():
        seconds = time.perf_counter() - started
        say(f"{output_shown(args.output)}: {total_ids:,} ids of {size_for_people(total_bytes)} in {seconds:.1f} s")
    return 0


def decode(args: argparse.Namespace) -> int:
    """Write the bytes of ids."""
    tokenizer = tokenizer_named(args.tokenizer)
    for name in args.files:
        data = read(name)
        with about(name):
            ids = parse_ids(data, tokenizer.vocab_size)
            content = tokenizer.decode_bytes(ids, skip_special_tokens=args.skip_special)
        stdout().buffer.write(content)
        flush()
    return 0


def count(args: argparse.Namespace) -> int:
    """Write how many tokens and bytes files have."""
    tokenizer = tokenizer_named(args.tokenizer)
    options = text_options(args)
    # As wide as the files' sizes need, so that each line can be written at once; what has no size yet may be long.
    sizes = [size_ahead(name) for name in args.files]
    width = 7 if None in sizes else len(str(sum(filter(None, sizes))))
    total_tokens, total_bytes, code = 0, 0, 0
    for name in with_bar(args.files, visible=not stdout().isatty()):
        try:
            data = read(name)
            with about(name), announced(tokenizer, "counting", name, len(data)):
                tokens = tokenizer.count(data, **options)
        except Failure as failure:  # the other files are counted all the same, as wc does
            flush()
            say(str(failure))
            code = FAILED
            continue
        write_text(f"{tokens:>{width}} {len(data):>{width}} {printable(name)}\n")
        total_tokens, total_bytes = total_tokens + tokens, total_bytes + len(data)
    if len(args.files) > 1:
        write_text(f"{total_tokens:>{width}} {total_bytes:>{width}} total\n")
    return code


def show(args: argparse.Namespace) -> int:
    """Write where texts are cut, and into which tokens."""
    tokenizer = tokenizer_named(args.tokenizer)
    options = text_options(args)
    color, width = color_wanted(stdout()), terminal_columns()
    if color and os.name == "nt":
        os.system("")  # makes the older Windows console obey colours
    for name in args.files:
        data = read(name)
        with about(name), announced(tokenizer, "encoding", name, len(data)):
            lines = tokenizer.show(data, limit=args.limit, **options).to_text(color=color, width=width)
        if len(args.files) > 1:
            write_text(f"==> {printable(name)} <==\n")
        write_text(lines)
    return 0


def warmup(args: argparse.Namespace) -> int:
    """Compile all kernels, or those of one tokenizer."""
    notices.expect_compiling()
    tokenizer = None if args.tokenizer is None else tokenizer_named(args.tokenizer)
    if watched():
        say(f"compiling kernels, {notices.ALL_COMPILE_TIME} unless they are compiled already")
    started = time.perf_counter()
    from numbatok.engine import common_kernels
    from numbatok.kernels.jit import all_kernels

    wanted = all_kernels()
    if tokenizer is not None:
        with about(args.tokenizer):
            tokenizer.encode("")  # compiles those that it has chosen among alternatives
        wanted = [kernel for kernel in wanted if kernel.ready or kernel.name in common_kernels()]
    compiled, kept = 0, None
    for kernel in wanted:
        with about(kernel.name):
            stats = kernel.compiled().stats
        fresh = bool(stats.cache_misses)
        compiled, kept = compiled + fresh, stats.cache_path
        if args.verbose:
            write_text(f"{kernel.seconds:6.2f} s  {'compiled' if fresh else 'read':8}  {kernel.name}\n")
    already = len(wanted) - compiled
    write_text(
        f"{len(wanted)} kernels are ready after {time.perf_counter() - started:.1f} s: {compiled} compiled, "
        f"{already} compiled before; they are kept in {printable(str(kept))}\n"
        if kept
        else f"{len(wanted)} kernels compiled in {time.perf_counter() - started:.1f} s, but not kept\n"
    )
    return 0
