"""How long it takes until numbatok works: import, loading, the first ids; and compiling, once a machine.

    python bench/startup.py
    python bench/startup.py --runs 9 --compile-runs 2
    python bench/startup.py -t lenml_llama3 --compile-runs 0   # a tokenizer.json, beside tokenizers

Every figure comes from fresh, pinned processes: the median of several, from the start of the interpreter ("process")
and of the steps inside it. The kernel cache is a temporary directory (``NUMBA_CACHE_DIR``), so that of the machine is
neither used nor changed: filled for the warm figures, empty for compiling.
"""

import json
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import _common
import _sides
from _common import complain, short

#: Steps of each program; the time of each is told apart.
PROGRAMS = {
    "nothing": (),
    "import numpy": ("import numpy",),
    "import numba": ("import numba",),
    "import numbatok": ("import numbatok",),
    "load": ("import numbatok", "tokenizer = {load}"),
    "first ids, warm kernel cache": (
        "import numbatok",
        "tokenizer = {load}",
        "tokenizer.encode('Hello world')",
        "tokenizer.encode('Hello again')",
    ),
    "tokenizers, the same tokenizer.json": (
        "import tokenizers",
        "tokenizer = tokenizers.Tokenizer.from_file({file!r})",
        "tokenizer.encode('Hello world')",
        "tokenizer.encode('Hello again')",
    ),
}
FIRST_IDS = "first ids, warm kernel cache"
PEER = "tokenizers, the same tokenizer.json"

_TIMED_STEP = """
_started = _clock()
{step}
_seconds.append(_clock() - _started)
"""
_BEFORE = "import time\n_clock = time.perf_counter\n_seconds = []\n"
_AFTER = "import json\nprint(json.dumps(_seconds))\n"

#: Compiles every kernel by itself and tells how long each took.
_KERNELS = """
import json, time
from numbatok.kernels.jit import all_kernels
seconds = {}
for kernel in all_kernels():
    started = time.perf_counter()
    kernel.compiled()
    seconds[kernel.name] = time.perf_counter() - started
print(json.dumps(seconds))
"""


def program(steps: Sequence[str], vocabulary: dict[str, Any]) -> str:
    """The source of a program that runs the steps on a vocabulary and prints the seconds of each as JSON."""
    encoding, file = vocabulary["encoding"], vocabulary["json"]
    load = f"numbatok.get_encoding({encoding!r})" if encoding else f"numbatok.Tokenizer.from_file({file!r})"
    return _BEFORE + "".join(_TIMED_STEP.format(step=step.format(load=load, file=file)) for step in steps) + _AFTER


def run(source: str, cores: list[int], cache: str) -> tuple[float, Any]:
    """(seconds of the whole process, what it printed); exits with status 1 where it fails."""
    started = time.perf_counter()
    output, error = _common.run_python(
        ["-c", f"import os\n{_PIN.format(cores=cores)}\n{source}"], cores=cores, environment={"NUMBA_CACHE_DIR": cache}
    )
    seconds = time.perf_counter() - started
    if error is not None:
        complain(f"failed: {error}")
        sys.exit(1)
    return seconds, json.loads(output.splitlines()[-1])


_PIN = "hasattr(os, 'sched_setaffinity') and os.sched_setaffinity(0, {cores})"


def main() -> int:
    """Measure and print."""
    parser = _common.parser(__doc__)
    parser.add_argument("--runs", type=int, default=7, help="processes for each warm figure (default: 7)")
    parser.add_argument("--compile-runs", type=int, default=3, help="processes that compile (default: 3)")
    options = parser.parse_args()
    about = _common.machine(options.cores)
    _common.print_machine(about)
    with tempfile.TemporaryDirectory() as folder:
        results = measure(options, _sides.prepare(options.tokenizer, Path(folder)))
    _common.write_json(options.json, about, tokenizer=options.tokenizer, seconds=results)
    return 0


def measure(options: Any, vocabulary: dict[str, Any]) -> dict[str, Any]:
    """Run all programs on a vocabulary, print their tables, and return the figures."""
    results: dict[str, Any] = {}
    programs = dict(PROGRAMS)
    if _common.version("tokenizers") is None:
        complain("tokenizers is not installed, and is left out (pip install numbatok[bench])")
        del programs[PEER]
    with tempfile.TemporaryDirectory() as warm:
        first_ids = program(PROGRAMS[FIRST_IDS], vocabulary)
        run(first_ids, options.cores, warm)  # fills the cache
        gathered: dict[str, list[tuple[float, list[float]]]] = {title: [] for title in programs}
        for _ in range(options.runs):
            for title, steps in programs.items():
                gathered[title].append(run(program(steps, vocabulary), options.cores, warm))
    rows = []
    for title, runs in gathered.items():
        process = statistics.median(seconds for seconds, _ in runs)
        durations = [statistics.median(column) for column in zip(*(inside for _, inside in runs), strict=True)]
        results[title] = {"process": process, "steps": durations}
        cells = (
            [f"{seconds * 1e3:.1f}" for seconds in durations]
            if len(durations) > 1 or title.startswith("import")
            else []
        )
        rows.append([title, f"{process * 1e3:.0f}", f"{sum(durations) * 1e3:.1f}", *cells, *[""] * (4 - len(cells))])
    print(f"\nmilliseconds, medians of {options.runs} processes")
    _common.print_table(["", "process", "inside", "import", "load", "first encode", "second"], rows)

    waits, by_kernel = [], []
    for _ in range(options.compile_runs):
        with tempfile.TemporaryDirectory() as empty:
            waits.append(run(first_ids, options.cores, empty))
        with tempfile.TemporaryDirectory() as empty:
            by_kernel.append(run(_KERNELS, options.cores, empty)[1])
    if waits:
        process = statistics.median(seconds for seconds, _ in waits)
        encode = statistics.median(inside[2] for _, inside in waits)
        kernels = {name: statistics.median(one[name] for one in by_kernel) for name in by_kernel[0]}
        results["empty kernel cache"] = {"process": process, "first_encode": encode, "kernels": kernels}
        print(f"empty kernel cache, medians of {options.compile_runs} processes")
        print(f"process until the first ids {process:.2f} s, of which the first encode {encode:.2f} s\n")
        ordered = sorted(kernels.items(), key=lambda item: -item[1])
        listed = [[name, short(seconds)] for name, seconds in ordered]
        _common.print_table(["compiling", "seconds"], [*listed, ["all kernels", short(sum(kernels.values()))]])
    return results


if __name__ == "__main__":
    sys.exit(main())
