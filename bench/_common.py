"""What the benchmarks share: sample texts, child processes, an environment with another version, and printing.

Sample texts come from the folder that ``NUMBATOK_TEST_DATA`` names (by default ``../shared/data`` beside the
checkout), which holds ``corpus/<name>.txt.xz``, ``corpus-small/<name>.txt`` and ``vocab/``. Without it the sources of
Python's standard library and generated words stand in, so a benchmark runs for anybody.

Only the standard library is imported here: child processes import this module before what they measure.
"""

import argparse
import importlib.metadata
import importlib.util
import itertools
import json
import lzma
import os
import platform
import random
import re
import statistics
import subprocess
import sys
import sysconfig
import time
import unicodedata
import venv
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parent.parent
SEPARATOR = b"<|endoftext|>"
WORKER = "--worker"
INSTALLED = importlib.util.find_spec("numbatok") is not None
if not INSTALLED:
    sys.path.append(str(REPOSITORY))

#: Texts that exist everywhere, by name; see :func:`read_text`.
STAND_INS = ("python-source", "generated")


def complain(message: str) -> None:
    """One line for the person who runs the benchmark, apart from the results."""
    print(message, file=sys.stderr, flush=True)


# --- sample texts ---


@dataclass(frozen=True)
class Sample:
    """A text in a file of its own: UTF-8 without document separators, cut at a line or character."""

    name: str
    path: Path
    size: int

    @property
    def megabytes(self) -> float:
        """Its size in units of 10^6 bytes."""
        return self.size / 1e6


def test_data() -> Path | None:
    """The folder of test data, or None where there is none."""
    folder = Path(os.environ.get("NUMBATOK_TEST_DATA") or REPOSITORY.parent / "shared" / "data")
    return folder if folder.is_dir() else None


def find_data(relative: str) -> Path | None:
    """The path of a file of the test data, packed as ``.xz`` or not, or None where it is not there."""
    folder = test_data()
    if folder is not None:
        for path in (folder / relative, folder / f"{relative}.xz"):
            if path.is_file():
                return path
    return None


def read_data(path: Path, limit: int = -1) -> bytes:
    """The first ``limit`` bytes (all for -1) of a file, unpacked if its name ends in ``.xz``."""
    with lzma.open(path) if path.suffix == ".xz" else path.open("rb") as file:
        return file.read(limit)


def corpus_names() -> list[str]:
    """The names of the corpus files that are there."""
    folder = test_data()
    if folder is None:
        return []
    return sorted({path.name.split(".")[0] for path in (folder / "corpus").glob("*.txt*")})


def _find_text(name: str) -> Path | None:
    """The file that a name given on the command line means: a path, or a file of the corpus."""
    if Path(name).is_file():
        return Path(name)
    places = ("corpus", "corpus-small", "corpus-small/shared-only")
    return next(filter(None, (find_data(f"{place}/{name}.txt") for place in places)), None)


def _standard_library(limit: int) -> bytes:
    """Sources of Python's standard library, in order of their paths."""
    folder = Path(sysconfig.get_path("stdlib"))
    content = bytearray()
    for path in sorted(folder.rglob("*.py")):
        if "site-packages" not in path.parts:
            with suppress(OSError, UnicodeDecodeError):
                source = path.read_bytes()
                source.decode()  # a few test files are not UTF-8 on purpose
                content += source
            if len(content) >= limit:
                break
    return bytes(content[:limit])


def _letters(ranges: Iterable[tuple[int, int]]) -> list[str]:
    """The letters in ranges of code points, their ends included."""
    characters = (chr(code) for first, last in ranges for code in range(first, last + 1))
    return [character for character in characters if unicodedata.category(character)[0] == "L"]


def _generated(limit: int) -> bytes:
    """Words of random letters of six scripts, frequent ones as frequent as Zipf's law says."""
    scripts = [(0x61, 0x7A), (0x430, 0x44F), (0x4E00, 0x5FFF), (0x3041, 0x3096), (0x905, 0x939), (0xAC00, 0xC000)]
    choose = random.Random(1)
    weights = list(itertools.accumulate(1 / rank for rank in range(1, 20_001)))
    content = bytearray()
    vocabularies = []
    for script in scripts:
        letters = _letters([script])
        words = ["".join(choose.choices(letters, k=choose.randint(1, 9))) for _ in weights]
        vocabularies.append([word + choose.choices(("", ",", "."), (8, 1, 1))[0] for word in words])
    while len(content) < limit:
        for words in vocabularies:
            content += " ".join(choose.choices(words, cum_weights=weights, k=400)).encode() + b"\n"
    return bytes(content[:limit])


def unrelated_text(characters: int = 1 << 18) -> str:
    """A text for warming: words of 12 random letters, after spaces, which no text has by chance."""
    choose = random.Random(2)
    letters = _letters([(0x41, 0x5A), (0x61, 0x7A)])
    georgian = _letters([(0x10D0, 0x10FA)])
    words = ["".join(choose.choices(letters if n % 8 else georgian, k=12)) for n in range(characters // 13)]
    return " " + " ".join(words)


def cut_at_character(text: bytes, limit: int) -> bytes:
    """At most ``limit`` bytes of UTF-8, without a broken character at the end."""
    return text[:limit].decode("utf-8", "ignore").encode() if len(text) > limit else text


def _joined(names: Sequence[str], limit: int) -> bytes | None:
    """Texts one after the other; the lines of one that comes again are shuffled. None if one is missing."""
    content = bytearray()
    for number, name in enumerate(names):
        part = read_text(name, limit)
        if part is None:
            return None
        if name in names[:number]:
            lines = part.splitlines(keepends=True)
            random.Random(number).shuffle(lines)
            part = b"".join(lines)
        content += part
        if len(content) >= limit:
            break
    return bytes(content)


def read_text(name: str, limit: int) -> bytes | None:
    """At most ``limit`` bytes of a sample text without its document separators; None where there is no such text.

    Names with "+" between them are one text, see :func:`_joined`.
    """
    path = _find_text(name)
    if path is None and "+" in name:
        content = _joined(name.split("+"), limit)
        if content is None:
            return None
    elif path is not None:
        content = read_data(path, limit + limit // 16).replace(SEPARATOR, b"")
    elif name == "python-source":
        content = _standard_library(limit).replace(SEPARATOR, b"")
    elif name == "generated":
        content = _generated(limit)
    else:
        return None
    content = content[:limit].decode("utf-8", "ignore").encode()
    line_end = content.rfind(b"\n", len(content) - 4096) + 1
    return content[:line_end] if line_end > len(content) // 2 else content


def choose_files(asked: list[str] | None, default: Sequence[str]) -> list[str]:
    """The names of sample texts to use: those asked for, or the default ones, or stand-ins where there are none.

    Exits with status 2 and the reason where a text that was asked for is not there.
    """
    if asked == ["all"]:
        asked = corpus_names() or list(STAND_INS)
    if asked is None:
        if found := [name for name in default if _find_text(name)]:
            return found
        complain(
            f"no test data at {os.environ.get('NUMBATOK_TEST_DATA') or REPOSITORY.parent / 'shared' / 'data'} (set "
            f"NUMBATOK_TEST_DATA to a folder with corpus/ in it): {' and '.join(STAND_INS)} stand in"
        )
        return list(STAND_INS)
    for name in asked:
        parts = [name] if _find_text(name) else name.split("+")
        if not all(_find_text(part) or part in STAND_INS for part in parts):
            known = ", ".join([*corpus_names(), *STAND_INS])
            complain(f"no text {name!r}: give a path, or one of {known} (NUMBATOK_TEST_DATA names the folder)")
            sys.exit(2)
    return list(asked)


def cuts(text: bytes, size: int, count: int) -> list[str]:
    """``count`` texts of at most ``size`` bytes, evenly spread, cut at characters."""
    step = max(1, (len(text) - size) // count)
    return [text[at : at + size].decode("utf-8", "ignore") for at in range(0, step * count, step)]


def write_sample(name: str, limit: int, folder: Path) -> Sample:
    """A sample text as a file of its own in ``folder``."""
    content = read_text(name, limit)
    if content is None:
        raise ValueError(f"no text {name!r}")
    path = folder / f"{Path(name).stem}.{limit}.txt"
    path.write_bytes(content)
    return Sample(Path(name).stem, path, len(content))


# --- child processes ---


def cache_folder() -> Path:
    """Where environments made by the benchmarks stay from run to run."""
    base = os.environ.get("LOCALAPPDATA") or os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(base) / "numbatok-bench"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def environment_with(requirements: Sequence[str], install: bool = True) -> Path | None:
    """The Python of a virtual environment that holds ``requirements``, made on first use; None if it can't be had."""
    folder = cache_folder() / "-".join([f"py{sys.version_info.major}{sys.version_info.minor}", *requirements])
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    finished = folder / "finished"
    if finished.exists() and python.exists():
        return python
    if not install:
        return None
    complain(f"installing {' '.join(requirements)} in an environment of its own, {folder}")
    try:
        venv.create(folder, with_pip=True, clear=True)
        command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *requirements]
        subprocess.run(command, check=True, capture_output=True, text=True, timeout=600)
    except (OSError, subprocess.SubprocessError) as error:
        said = (getattr(error, "stderr", None) or str(error)).strip().splitlines()
        complain(f"could not be installed, and is left out: {said[-1] if said else error}")
        return None
    finished.touch()
    return python


def child_environment(threads: int, **more: str) -> dict[str, str]:
    """Environment variables of a child: threads pinned, and numbatok found in the checkout if it is not installed."""
    environment = dict(os.environ)
    names = ("RAYON_NUM_THREADS", "NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    environment.update(dict.fromkeys(names, str(threads)))
    environment["TOKENIZERS_PARALLELISM"] = "true" if threads > 1 else "false"
    if not INSTALLED:
        paths = filter(None, (str(REPOSITORY), environment.get("PYTHONPATH")))
        environment["PYTHONPATH"] = os.pathsep.join(paths)
    return environment | more


def run_python(
    arguments: Sequence[str],
    *,
    cores: Sequence[int],
    python: Path | str | None = None,
    stdin: str = "",
    timeout: float | None = None,
    environment: dict[str, str] | None = None,
) -> tuple[str, str | None]:
    """Run a fresh Python; returns (standard output, None or what went wrong). After ``timeout`` seconds it is ended."""
    process = subprocess.Popen(
        [str(python or sys.executable), *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=child_environment(len(cores), **(environment or {})),
        encoding="utf-8",
    )
    try:
        output, errors = process.communicate(stdin, timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        output, _ = process.communicate()
        return output, f"no end after {timeout:g} s"
    except BaseException:
        process.kill()
        process.wait()
        raise
    if process.returncode != 0:
        lines = [line for line in errors.splitlines() if line.strip()]
        # An exception's message can have more lines than its first, which names it.
        named = [line for line in lines if re.match(r"[\w.]+(Error|Exception|Interrupt|Exit)\b", line)]
        return output, (named or lines or [f"exit status {process.returncode}"])[-1]
    return output, None


def run_worker(
    script: str, task: dict[str, Any], *, cores: Sequence[int], **options: Any
) -> tuple[list[dict[str, Any]], str | None]:
    """Run ``script``'s worker on a task in a fresh process; returns (what it reported, None or what went wrong)."""
    stdin = json.dumps({**task, "cores": list(cores)})
    output, error = run_python([script, WORKER], cores=cores, stdin=stdin, **options)
    reports = []
    for line in output.splitlines():
        if line.startswith("{"):
            with suppress(ValueError):  # a line that was cut short
                reports.append(json.loads(line))
    if error is None and not reports:
        error = "nothing was reported"
    return reports, error


def pin(cores: Iterable[int]) -> None:
    """Keep this process to the given cores, where the system can."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, cores)


def run_script(worker: Callable[[dict[str, Any]], Iterable[dict[str, Any]]], main: Callable[[], int]) -> None:
    """Run a script: its worker, on the task on standard input and with a JSON line for each report, or its main."""
    if sys.argv[1:2] != [WORKER]:
        sys.exit(main())
    task = json.load(sys.stdin)
    pin(task["cores"])
    for report in worker(task):
        print(json.dumps(report), flush=True)


def timed(function: Callable[[], Any]) -> tuple[float, Any]:
    """(seconds, result) of one call."""
    started = time.perf_counter()
    result = function()
    return time.perf_counter() - started, result


def least(function: Callable[[], Any], seconds: float) -> float:
    """The shortest of some calls, as many as fit into ``seconds`` (at least three), in seconds."""
    durations = [timed(function)[0]]
    while len(durations) < 3 or sum(durations) < seconds:
        durations.append(timed(function)[0])
    return min(durations)


class CoreShare:
    """How much of its time a process that never waits has run: less than 1 where others used its core."""

    def __init__(self) -> None:
        self._wall, self._used = time.perf_counter(), time.process_time()

    def so_far(self) -> float:
        """The share since this object was made."""
        return (time.process_time() - self._used) / (time.perf_counter() - self._wall)


def peak_bytes() -> int | None:
    """The most memory that this process has used, not counting its parent's as ``ru_maxrss`` does; None if unknown."""
    with suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM"):
                return int(line.split()[1]) << 10
    return None


def forget_peak() -> None:
    """Let :func:`peak_bytes` tell of what this process uses from now on, where the system can."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def warn_of_others(shares: Iterable[float], cores: Sequence[int]) -> None:
    """Say that figures are not to be trusted, if a process on one core had too small a share of it."""
    smallest = min(shares, default=1.0)
    if len(cores) == 1 and smallest < 0.95:
        print(f"NOT QUIET: others used core {cores[0]} meanwhile, and some process had only {smallest:.0%} of it\n")


# --- command line ---


def parse_cores(text: str) -> list[int]:
    """Core numbers from ``"0"``, ``"0,2"`` or ``"0-3"``."""
    cores: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        cores.update(range(int(first), int(last or first) + 1))
    return sorted(cores)


def all_cores() -> list[int]:
    """Those that this process may use."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(range(os.cpu_count() or 1))


def default_cores() -> list[int]:
    """One core: the last that this process may use."""
    return all_cores()[-1:]


def parser(doc: str | None) -> argparse.ArgumentParser:
    """A command line that prints the script's docstring as its help, with the options that all scripts have."""
    made = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument(
        "-t",
        "--tokenizer",
        default="gpt2",
        help="an encoding, a folder of the test data's vocabularies or the path of a tokenizer.json (default: gpt2)",
    )
    made.add_argument(
        "--cores",
        type=parse_cores,
        default=default_cores(),
        metavar="LIST",
        help="cores to pin children to, such as 0 or 0,2-3; as many threads are used (default: the last core)",
    )
    made.add_argument("--json", type=Path, metavar="FILE", help="write all figures there too")
    return made


# --- figures ---


@dataclass(frozen=True)
class Figures:
    """Best and median of some durations, in seconds."""

    best: float
    median: float

    @classmethod
    def of(cls, durations: Sequence[float]) -> "Figures":
        """Those of a non-empty sequence."""
        return cls(min(durations), statistics.median(durations))


def _processor() -> str:
    """The processor's name."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.lower().startswith(("model name", "cpu model", "hardware")):
                return line.partition(":")[2].strip()
    if sys.platform == "darwin":
        with suppress(OSError, subprocess.SubprocessError):
            command = ["sysctl", "-n", "machdep.cpu.brand_string"]
            return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    return platform.processor() or platform.machine()


def version(distribution: str) -> str | None:
    """The installed version of a distribution, or None."""
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def machine(cores: Sequence[int]) -> dict[str, Any]:
    """What the figures depend on besides the code."""
    return {
        "processor": _processor(),
        "architecture": platform.machine(),
        "processors": os.cpu_count(),
        "cores": list(cores),
        "system": platform.platform(terse=True),
        "python": platform.python_version(),
        "numba": version("numba"),
        "numpy": version("numpy"),
        "load": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
    }


def print_machine(about: dict[str, Any]) -> None:
    """Two lines on where the figures come from."""
    cores = ",".join(map(str, about["cores"]))
    print(f"{about['processor']}, {about['processors']} processors, pinned to {cores}; {about['system']}")
    print(f"Python {about['python']}, numba {about['numba']}, numpy {about['numpy']}; load {about['load']}", flush=True)


def print_table(headers: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """An aligned table: the first column to the left, the others to the right."""
    cells = [[str(cell) for cell in row] for row in (headers, *rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for row in cells:
        first = row[0].ljust(widths[0])
        rest = [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        print("  ".join([first, *rest]).rstrip())
    print(flush=True)


def short(value: float) -> str:
    """A number to three significant digits, without an exponent."""
    digits = 2 if abs(value) < 10 else 1 if abs(value) < 100 else 0
    return f"{value:.{digits}f}"


def write_json(path: Path | None, about: dict[str, Any], **results: Any) -> None:
    """Write figures for other programs, where that was asked for."""
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        content = {"machine": about, **results}
        path.write_text(json.dumps(content, indent=1, default=asdict) + "\n")
        print(f"written: {path}")
