"""Megabytes a second of numbatok and of other tokenizers on the same texts.

    python bench/throughput.py                                 # GPT-2, four kinds of text, one core
    python bench/throughput.py --files english-web code notes.txt --megabytes 50
    python bench/throughput.py --documents                     # 20,000 documents of 175 bytes as one batch
    python bench/throughput.py --documents --threads 1 2 -t deepseek_v4 --document-bytes 184
    python bench/throughput.py --files english-web+code chinese+chinese+chinese --megabytes 100  # joined, then shuffled

First the ids of all sides are compared; a difference is printed and the exit status is 1. Then each side is timed in
fresh processes, pinned to the given cores, that take turns over the rounds. In such a process the library is loaded and
warmed on a text that shares no pretoken with the sample; then a second tokenizer is loaded, so that its caches are
empty, and encodes the sample: once for the *first pass*, and again for the *later passes*. Every side gets the same
``str`` (or list of them); the first pass includes making its UTF-8, where it is not ASCII. What is timed is the
library's quickest call from Python, without turning its result into an array. Slow libraries get only the first part.
With ``--threads`` all of it is done for each number of threads, whose ids must be the same; their SHA-256 is printed.
A library that can't load the tokenizer, or not encode with it, is left out, with the reason.

"x" is numbatok's speed over the other's, best over best or median over median. "missed" is the share of pretokens that
numbatok did not find in its cache; "time of misses" is the first pass less a later one, over the first: merging,
learning and growing.
"""

import gc
import hashlib
import itertools
import json
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import _common
import _sides
from _common import Figures, Sample, complain, short

FILES = ("english-web", "code", "chinese", "russian")
DOCUMENTS, DOCUMENT_BYTES = 20_000, 175
FIRST, LATER = "first", "later"


# --- in the child ---


def digest_of(side: _sides.Side, result: Any, batch: bool) -> str:
    """SHA-256 of a result's ids as uint32, with the number of each text's ids for a batch."""
    ids, lengths = side.batch_of(result) if batch else (side.ids_of(result), None)
    digest = hashlib.sha256(ids.astype("<u4").tobytes())
    if lengths is not None:
        digest.update(lengths.astype("<i8").tobytes())
    return digest.hexdigest()


def worker(task: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Encode a sample in one process; report durations, the digest of the ids, or for a check the ids in a file."""
    content = Path(task["path"]).read_bytes().decode()  # as it is: read_text changes line ends
    batch = task["batch"]
    source: Any = json.loads(content) if batch else content
    side = _sides.load(task)
    if task["save"]:
        import numpy as np

        result = side.encode_batch(source) if batch else side.encode(source)
        np.save(task["save"], side.batch_of(result)[0] if batch else side.ids_of(result))
        yield {"digest": digest_of(side, result, batch), "version": side.version()}
        return
    unrelated = _common.unrelated_text(1 << 20)  # so long that all threads start, and what they run is loaded
    side.encode(unrelated)
    side.encode_batch([unrelated[at : at + 100] for at in range(0, len(unrelated), 100)])
    side = _sides.load(task)
    side.encode("")
    run = side.encode_batch if batch else side.encode
    before = side.statistics() if isinstance(side, _sides.Numbatok) else {}
    after: dict[str, int] = {}
    seconds, digests = [], set()
    gc.collect()
    gc.disable()
    share = _common.CoreShare()
    for number in range(1 + task["passes"]):
        duration, result = _common.timed(partial(run, source))
        seconds.append(duration)
        if number == 0 and isinstance(side, _sides.Numbatok):
            after = side.statistics()
        if number in (0, task["passes"]):
            digests.add(digest_of(side, result, batch))
        del result
    yield {
        "seconds": seconds,
        "digests": sorted(digests),
        "share_of_core": share.so_far(),
        **{name: count - before[name] for name, count in after.items()},
    }


# --- in the parent ---


def write_documents(name: str, size: int, folder: Path) -> Sample:
    """20,000 documents of at most ``size`` bytes, cut from a sample at characters, as a JSON list."""
    text = _common.read_text(name, DOCUMENTS * (size + 16)) or b""
    documents: list[str] = []
    position = 0
    while len(documents) < DOCUMENTS and position < len(text):
        document = _common.cut_at_character(text[position : position + size + 1], size)
        documents.append(document.decode())
        position += len(document)
    path = folder / "documents.json"
    path.write_text(json.dumps(documents), encoding="utf-8")
    return Sample(f"{len(documents):,} documents of {name}", path, position)


class Comparison:
    """One sample and one number of threads: which side gets which part of it, what each reported."""

    def __init__(
        self, options: Any, threads: int, sides: dict[str, Path | str], vocabulary: dict[str, Any], folder: Path
    ) -> None:
        self.options = options
        self.cores = options.cores[:threads]
        self.sides = dict(sides)
        self.vocabulary = vocabulary
        self.folder = folder
        self.seconds: dict[str, dict[str, list[float]]] = {label: {FIRST: [], LATER: []} for label in sides}
        self.versions: dict[str, str] = {}
        self.numbatok: dict[str, int] = {}
        self.wrong: list[str] = []
        self.left_out: dict[str, str] = {}
        self.shares: list[float] = []  # of their core that the timed processes had

    def take(self, name: str) -> None:
        """Write the sample and, for slow sides, its first part."""
        self.sample = self.part = _common.write_sample(name, int(self.options.megabytes * 1e6), self.folder)
        limit = int(self.options.slow_megabytes * 1e6)
        if limit < self.sample.size and any(_sides.SIDES[label].slow for label in self.sides):
            self.part = _common.write_sample(name, limit, self.folder)

    def take_documents(self, name: str) -> None:
        """Write the batch of short documents, which all sides get."""
        self.sample = self.part = write_documents(name, self.options.document_bytes, self.folder)

    def sample_of(self, label: str) -> Sample:
        """The text that a side gets."""
        return self.part if _sides.SIDES[label].slow else self.sample

    def _run(self, label: str, sample: Sample, save: str = "") -> dict[str, Any] | None:
        """One process of one side; its report, or None after saying what went wrong.

        Where a peer can't do what it is checked for (``save``), it is left out; all else is a failure.
        """
        task = {
            "side": label,
            "vocabulary": self.vocabulary,
            "path": str(sample.path),
            "batch": self.options.documents,
            "passes": self.options.passes,
            "save": save,
        }
        reports, error = _common.run_worker(
            __file__, task, cores=self.cores, python=self.sides[label], timeout=self.options.timeout
        )
        if error is None:
            return reports[0]
        complain(f"{label} failed on {self.sample.name}, and is left out: {error}")
        if save and label != "numbatok":
            self.left_out[label] = error
        else:
            self.wrong.append(f"{label} on {self.sample.name}: {error}")
        return None

    def check(self) -> None:
        """Compare all sides' ids with numbatok's; remember the digests that timed passes must reproduce."""
        import numpy as np

        self.digests: dict[str, str] = {}
        for label in list(self.sides):
            sample = self.sample_of(label)
            saved = str(self.folder / f"{label}.npy")
            told = self._run(label, sample, saved)
            if told is None:
                del self.sides[label]
                if label == "numbatok":
                    raise SystemExit(1)
                continue
            if label == "numbatok":
                self.ids = len(np.load(saved, mmap_mode="r"))
            self.versions[label] = told["version"]
            reference, digest = str(self.folder / "numbatok.npy"), self.digests.get("numbatok")
            if label == "numbatok":
                self.pretokens = {self.sample.path: self._pretokens(self.sample)}
            elif sample is not self.sample:
                reference = str(self.folder / "part.npy")
                if "part" not in self.digests:
                    self.digests["part"] = (self._run("numbatok", sample, reference) or told)["digest"]
                    self.pretokens[sample.path] = self._pretokens(sample)
                digest = self.digests["part"]
            self.digests[label] = told["digest"]
            if label != "numbatok" and told["digest"] != digest:
                self._tell_difference(label, np.load(reference), np.load(saved))

    def _tell_difference(self, label: str, ours: Any, theirs: Any) -> None:
        """Say loudly where a side's ids are not numbatok's."""
        import numpy as np

        common = min(len(ours), len(theirs))
        unequal = np.flatnonzero(ours[:common] != theirs[:common])
        at = int(unequal[0]) if len(unequal) else common
        tokenizer = _sides.Numbatok(self.vocabulary, 1).tokenizer
        before = tokenizer.decode(ours[max(0, at - 8) : at])
        message = (
            f"DIFFERENT IDS on {self.sample.name}: numbatok {len(ours)} ids, {label} {len(theirs)}; the first "
            f"difference is at {at}, after {before!r}: {ours[at : at + 4].tolist()} and {theirs[at : at + 4].tolist()}"
        )
        complain(f"\n*** {message}\n")
        self.wrong.append(message)

    def _pretokens(self, sample: Sample) -> int:
        """How many pretokens a sample has; measured here, not in a child, since it is not timed."""
        tokenizer = _sides.Numbatok(self.vocabulary, 1).tokenizer
        content = sample.path.read_bytes().decode()
        texts = json.loads(content) if self.options.documents else [content]
        return sum(len(tokenizer.pretokenize(text)) - 1 for text in texts)

    def measure(self) -> None:
        """Time all sides, each in fresh processes, taking turns: each round begins with another side."""
        for turn in range(self.options.rounds):
            labels = list(self.sides)
            turned = labels[turn % len(labels) :] + labels[: turn % len(labels)]
            for label in turned:
                told = self._run(label, self.sample_of(label))
                if told is None:
                    del self.sides[label]
                    continue
                if told["digests"] != [self.digests[label]]:
                    message = f"{label} gave other ids while it was timed on {self.sample.name}"
                    complain(f"\n*** {message}\n")
                    self.wrong.append(message)
                self.shares.append(told["share_of_core"])
                self.seconds[label][FIRST].append(told["seconds"][0])
                self.seconds[label][LATER].extend(told["seconds"][1:])
                if label == "numbatok":
                    self.numbatok = {name: told[name] for name in ("pretokens", "missed", "merged_bytes")}

    def results(self) -> dict[str, Any]:
        """All figures of the sample."""
        rows: dict[str, Any] = {}
        for label in self.sides:
            if not self.seconds[label][LATER]:
                continue
            sample = self.sample_of(label)
            row: dict[str, Any] = {"version": self.versions[label], "bytes": sample.size}
            for kind, seconds in self.seconds[label].items():
                figures = Figures.of(seconds)
                row[kind] = {
                    "seconds": seconds,
                    "best": sample.megabytes / figures.best,
                    "median": sample.megabytes / figures.median,
                    "ns_a_pretoken": figures.best / self.pretokens[sample.path] * 1e9,
                }
            rows[label] = row
        for row in rows.values():
            for kind in (FIRST, LATER):
                for which in ("best", "median"):
                    row[kind][f"ratio_{which}"] = rows["numbatok"][kind][which] / row[kind][which]
        first, later = (Figures.of(self.seconds["numbatok"][kind]) for kind in (FIRST, LATER))
        return {
            "name": self.sample.name,
            "bytes": self.sample.size,
            "threads": len(self.cores),
            "ids": self.ids,
            "digest": self.digests["numbatok"],
            "left_out": self.left_out,
            "pretokens": self.pretokens[self.sample.path],
            "shares_of_core": self.shares,
            "sides": rows,
            "numbatok": {**self.numbatok, "time_of_misses": 1 - later.best / first.best},
        }


def best_peer(result: dict[str, Any], kind: str, which: str) -> tuple[str, float] | None:
    """(label, numbatok's speed over its) of the fastest other side."""
    ratios = {label: row[kind][f"ratio_{which}"] for label, row in result["sides"].items() if label != "numbatok"}
    return min(ratios.items(), key=lambda item: item[1]) if ratios else None


def show(result: dict[str, Any]) -> None:
    """Print one sample's table."""
    size, pretokens = result["bytes"], result["pretokens"]
    threads = f"; {result['threads']} threads" if result["threads"] > 1 else ""
    print(f"{result['name']}: {size / 1e6:.1f} MB, {pretokens:,} pretokens of {size / pretokens:.2f} bytes{threads}")
    kinds = (FIRST, LATER)
    columns = [column for kind in kinds for column in (f"{kind} MB/s", "median", "ns/pretoken", "x", "of medians")]
    rows = []
    for label, row in result["sides"].items():
        part = "" if row["bytes"] == size else f" ({short(row['bytes'] / 1e6)} MB)"
        cells = [f"{label} {row['version']}{part}"]
        for kind in kinds:
            figures = row[kind]
            cells += [short(figures[name]) for name in ("best", "median", "ns_a_pretoken")]
            cells += ["", ""] if label == "numbatok" else [f"{figures[f'ratio_{n}']:.2f}" for n in ("best", "median")]
        rows.append(cells)
    _common.print_table(["", *columns], rows)


def show_summary(results: list[dict[str, Any]]) -> None:
    """Print numbatok's figures on all samples, against the fastest other side of each."""
    rows = []
    for result in results:
        cells = [result["name"] + (f", {result['threads']} threads" if result["threads"] > 1 else "")]
        for kind in (FIRST, LATER):
            cells.append(short(result["sides"]["numbatok"][kind]["best"]))
            for which in ("best", "median"):
                found = best_peer(result, kind, which)
                cells.append(f"{found[1]:.2f} {found[0]}" if found else "")
        inside = result["numbatok"]
        missed = inside["missed"] / max(inside["pretokens"], 1)
        rows.append([*cells, f"{missed:.2%}", f"{inside['time_of_misses']:.0%}"])
    headers = ["numbatok"]
    for kind in (FIRST, LATER):
        headers += [f"{kind} MB/s", "x best peer", "of medians"]
    _common.print_table([*headers, "missed", "time of misses"], rows)


def compare_digests(results: list[dict[str, Any]]) -> list[str]:
    """Print how many ids each sample has, and their digest; returns what is wrong: other ids with other threads."""
    wrong = []
    for name, those in itertools.groupby(results, key=lambda result: result["name"]):
        same = list(those)
        threads = " and ".join(str(result["threads"]) for result in same)
        for ids, digest in sorted({(result["ids"], result["digest"]) for result in same}):
            print(f"{name}: {ids:,} ids, threads {threads}, SHA-256 {digest}")
        if len({result["digest"] for result in same}) > 1:
            wrong.append(f"numbatok gave other ids with another number of threads on {name}")
    return wrong


def main() -> int:
    """Compare, time, print; 1 if any ids differ or a side failed."""
    parser = _common.parser(__doc__)
    parser.add_argument("--files", nargs="+", metavar="NAME", help=f"corpus files or paths; 'all' (default: {FILES})")
    parser.add_argument("--megabytes", type=float, default=16, help="of each file (default: 16)")
    parser.add_argument("--slow-megabytes", type=float, default=2, help="for the slow libraries (default: 2)")
    parser.add_argument("--documents", action="store_true", help="a batch of short documents of the first file instead")
    parser.add_argument(
        "--document-bytes", type=int, default=DOCUMENT_BYTES, help=f"of a document (default: {DOCUMENT_BYTES})"
    )
    parser.add_argument(
        "--threads", type=int, nargs="+", help="numbers of threads, on as many of the cores (default: one a core)"
    )
    parser.add_argument("--rounds", type=int, default=3, help="processes of each side and file (default: 3)")
    parser.add_argument("--passes", type=int, default=5, help="later passes in each process (default: 5)")
    parser.add_argument("--timeout", type=float, default=600, help="seconds that a process may take (default: 600)")
    _sides.add_options(parser)
    options = parser.parse_args()
    if min(options.rounds, options.passes) < 1:
        parser.error("--rounds and --passes must be at least 1")
    if options.threads and options.cores == _common.default_cores():
        options.cores = _common.all_cores()
    if not all(1 <= threads <= len(options.cores) for threads in options.threads or ()):
        parser.error(f"--threads must be from 1 to {len(options.cores)}, the number of cores")
    names = _common.choose_files(options.files, FILES)
    if options.documents:
        names = names[:1]
    about = _common.machine(options.cores)
    _common.print_machine(about)
    results, wrong = [], []
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        vocabulary = _sides.prepare(options.tokenizer, folder)
        sides = _sides.present(options.peers, not options.no_install)
        if not vocabulary["ranks"]:
            sides.pop("tiktoken", None)  # it loads nothing else
        for name, threads in itertools.product(names, options.threads or [len(options.cores)]):
            comparison = Comparison(options, threads, sides, vocabulary, folder)
            (comparison.take_documents if options.documents else comparison.take)(name)
            comparison.check()
            comparison.measure()
            result = comparison.results()
            show(result)
            results.append(result)
            wrong += comparison.wrong
    show_summary(results)
    wrong += compare_digests(results)
    _common.warn_of_others(itertools.chain.from_iterable(result["shares_of_core"] for result in results), options.cores)
    _common.write_json(options.json, about, tokenizer=options.tokenizer, results=results, wrong=wrong)
    print("ids: equal on all sides" if not wrong else "*** " + "\n*** ".join(wrong), flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    _common.run_script(worker, main)
