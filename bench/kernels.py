"""A kernel's machine code, and which kernels the time goes to.

    python bench/kernels.py                                  # the kernels' names
    python bench/kernels.py look_up                          # assembly, as compiled for this processor
    python bench/kernels.py look_up --llvm                   # LLVM's, after its optimisation
    perf record -e cpu-clock -o perf.data python bench/kernels.py --run english-web
    perf report -i perf.data --sort symbol                   # kernels have names in it

Assembly is made anew, in a kernel cache of its own: Numba shows none of code that it has loaded from a cache.
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import _common


def parsed(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The arguments."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kernel", nargs="?", help="whose code to show")
    parser.add_argument("--llvm", action="store_true", help="show LLVM's code instead of the processor's")
    parser.add_argument("--run", metavar="TEXT", help="encode this text, a sample's name or a path, on one thread")
    parser.add_argument("--seconds", type=float, default=10, help="for so long (default: %(default)s)")
    parser.add_argument("-t", "--tokenizer", default="gpt2", help="by an encoding's name (default: %(default)s)")
    return parser.parse_args(arguments)


def show(name: str, as_llvm: bool) -> None:
    """Print a kernel's code."""
    from numbatok.kernels.jit import all_kernels, kernels

    all_kernels()
    if name not in kernels:
        sys.exit(f"no kernel {name!r}; there are {', '.join(sorted(kernels))}")
    compiled = kernels[name].compiled()
    (code,) = (compiled.inspect_llvm() if as_llvm else compiled.inspect_asm()).values()
    print(code)


def name_for_perf(kernels: dict[str, Any]) -> None:
    """Tell perf where each kernel is, by the file that it looks for: address, size and name on each line."""
    begins = sorted((kernel.address, name) for name, kernel in kernels.items() if kernel.ready)
    ends = [*(address for address, _ in begins[1:]), begins[-1][0] + (1 << 16)]
    lines = [
        f"{begin:x} {min(end - begin, 1 << 16):x} numbatok.{name}\n"
        for (begin, name), end in zip(begins, ends, strict=True)
    ]
    Path(f"/tmp/perf-{os.getpid()}.map").write_text("".join(lines), encoding="utf-8")


def run(text: str, name: str, seconds: float) -> None:
    """Encode a text over and over."""
    import numbatok
    from numbatok.kernels.jit import kernels

    content = _common.read_text(text, 16 << 20) or Path(text).read_bytes()
    tokenizer = numbatok.get_encoding(name)
    tokenizer.encode(content, num_threads=1)
    name_for_perf(kernels)
    started, passes = time.perf_counter(), 0
    while time.perf_counter() - started < seconds:
        tokenizer.encode(content, num_threads=1)
        passes += 1
    rate = passes * len(content) / 1e6 / (time.perf_counter() - started)
    print(f"{text}: {passes} passes, {rate:.0f} MB/s", file=sys.stderr)


def main() -> None:
    """What the arguments say."""
    asked = parsed()
    if asked.run:
        run(asked.run, asked.tokenizer, asked.seconds)
        return
    with tempfile.TemporaryDirectory() as folder:
        os.environ["NUMBA_CACHE_DIR"] = folder  # before Numba is imported
        if asked.kernel:
            show(asked.kernel, asked.llvm)
        else:
            from numbatok.kernels.jit import all_kernels

            print("\n".join(kernel.name for kernel in all_kernels()))


if __name__ == "__main__":
    main()
