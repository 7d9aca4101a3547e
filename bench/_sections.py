"""The sections of bench/RESULTS.md, one for each part, from what bench/results.json holds.

A part's runs are as :mod:`report` stores them: ``label``, ``command``, ``date``, ``mode``, ``commit``, ``load`` (the
average before it), ``seconds``, ``others`` (processors that others used meanwhile), ``error`` and ``figures``, which
the benchmark has written with ``--json``. A ratio is numbatok's speed over the other's; one below 1, where numbatok
is slower, is printed bold.
"""

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import throughput
from _common import short

Run = Mapping[str, Any]
Parts = Mapping[str, Sequence[Run]]
#: Of a plot's name, what it shows, and what makes it with the module :mod:`_plots`, the lines of Markdown.
Draw = Callable[[str, str, Callable[[Any], Any]], list[str]]
PEERS = ("gigatoken", "fastokens", "tokenizers-rc", "tiktoken", "tokenizers")
KINDS = (throughput.FIRST, throughput.LATER)


def table(headers: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    """Lines of a Markdown table, the first column to the left, and a blank line after it."""
    lines = ["| " + " | ".join(headers) + " |", "|---" + "|---:" * (len(headers) - 1) + "|"]
    return [*lines, *("| " + " | ".join(map(str, row)) + " |" for row in rows), ""]


def ratio(value: float | None) -> str:
    """A ratio for a table: bold where numbatok is behind, to one decimal where it is far ahead."""
    if value is None:
        return ""
    text = f"{value:.2f}" if value < 10 else f"{value:.0f}"
    return f"**{text}**" if value < 1 else text


def microseconds(seconds: float) -> str:
    """A duration of a call."""
    return f"{short(seconds * 1e6)} us" if seconds < 1e-3 else f"{short(seconds * 1e3)} ms"


def finished(runs: Sequence[Run]) -> list[Run]:
    """The runs that have figures."""
    return [run for run in runs if run.get("figures")]


def figures_of(parts: Parts, part: str) -> Any:
    """The figures of a part that is one run."""
    return finished(parts[part])[0]["figures"]


def commands(runs: Sequence[Run]) -> list[str]:
    """The commands of a part, those that differ in their tokenizer alone as one, and its time: a line of Markdown."""
    labels: dict[str, list[str]] = {}
    for run in runs:
        alike = run["command"].replace(f"-t {run['label']}", "-t NAME") if run["label"] else run["command"]
        labels.setdefault(alike, []).append(run["label"])
    listed = [
        f"`{alike}`" + (f" with NAME {', '.join(names)}" if "-t NAME" in alike else "")
        for alike, names in labels.items()
    ]
    others = [run["others"] for run in runs if run["others"] is not None]
    meanwhile = f"; others used {max(others):.2f} processors" if others else ""
    return [f"{'; '.join(listed)} ({sum(run['seconds'] for run in runs):.0f} s{meanwhile})", ""]


# --- throughput ---


def ratios(sides: Mapping[str, Any], label: str, which: str = "best") -> list[float] | None:
    return [sides[label][kind][f"ratio_{which}"] for kind in KINDS] if label in sides else None


def pair(values: Sequence[float] | None) -> str:
    return " · ".join(map(ratio, values)) if values else ""


SPEEDS = ("first pass · later passes", "numbatok, MB/s", *(f"over {label}" for label in PEERS))


def speeds_and_ratios(sides: Mapping[str, Any]) -> list[str]:
    """The cells under :data:`SPEEDS` but the first."""
    speeds = " · ".join(short(sides["numbatok"][kind]["best"]) for kind in KINDS)
    return [speeds, *(pair(ratios(sides, label)) for label in PEERS)]


def throughput_section(parts: Parts, draw: Draw, name: str = "throughput") -> list[str]:
    """Speeds, medians and misses."""
    found = [
        (run["figures"]["tokenizer"], result) for run in finished(parts[name]) for result in run["figures"]["results"]
    ]
    tokenizers = {tokenizer for tokenizer, _ in found}
    points = [
        (result["name"] if len(tokenizers) == 1 else f"{tokenizer}, {result['name']}", result["sides"])
        for tokenizer, result in found
    ]
    lines = draw(name, "MB/s of each library, on a logarithmic scale", lambda plots: plots.throughput(points))
    rows = []
    for (title, sides), (_, result) in zip(points, found, strict=True):
        inside = result["numbatok"]
        medians = [throughput.best_peer(result, kind, "median") for kind in KINDS]
        spread = sides["numbatok"]["later"]["best"] / sides["numbatok"]["later"]["median"] - 1
        rows.append(
            [
                title,
                *speeds_and_ratios(sides),
                pair([one[1] for one in medians if one]),
                f"{inside['missed'] / max(inside['pretokens'], 1):.1%}",
                f"{inside['time_of_misses']:.0%}",
                f"{spread:.0%}",
            ]
        )
    lines += table([*SPEEDS, "medians, over the fastest", "missed", "time of misses", "spread"], rows)
    left_out = sorted(
        {f"{label} ({tokenizer}: {why})" for tokenizer, result in found for label, why in result["left_out"].items()}
    )
    return lines + ([f"Left out: {'; '.join(left_out)}.", ""] if left_out else [])


def vocabularies_section(parts: Parts, draw: Draw) -> list[str]:
    """The same by vocabulary."""
    return throughput_section(parts, draw, "vocabularies")


def documents_section(parts: Parts, draw: Draw) -> list[str]:
    """Short documents, by threads."""
    rows, digests = [], []
    for run in finished(parts["documents"]):
        results = run["figures"]["results"]
        alone = results[0]["sides"]["numbatok"]
        for result in results:
            sides = result["sides"]
            row = [f"{run['figures']['tokenizer']}, {result['threads']}"]
            row.append(" · ".join(short(sides["numbatok"][kind]["best"]) for kind in KINDS))
            row.append(" · ".join(f"{sides['numbatok'][kind]['best'] / alone[kind]['best']:.2f}" for kind in KINDS))
            rows.append([*row, *(pair(ratios(sides, label)) for label in PEERS)])
        digests += [
            f"{run['figures']['tokenizer']}: {ids:,} ids of {name} ({size / 2**20:.2f} MiB), SHA-256 `{digest}`, "
            + ("the same for every number of threads." if same else "**NOT the same for every number of threads.**")
            for name, size, ids, digest, same in [
                (*(results[0][key] for key in ("name", "bytes", "ids", "digest")), len(_digests(results)) == 1)
            ]
        ]
    headers = ["tokenizer, threads", "numbatok, MB/s", "over its fewest threads", *(f"over {label}" for label in PEERS)]
    return [*table(headers, rows), *(f"- {line}" for line in digests), ""]


def _digests(results: Sequence[Mapping[str, Any]]) -> set[str]:
    return {result["digest"] for result in results}


# --- the other parts ---


def latency_section(parts: Parts, draw: Draw) -> list[str]:
    """Calls of one text."""
    figures = figures_of(parts, "latency")
    seconds = figures["seconds"]
    lines = draw("latency", "microseconds of one call, by the bytes of its text", lambda plots: plots.latency(seconds))
    rows = []
    for size, one in seconds["numbatok"].items():
        peers = [ratio(seconds[label][size]["median"] / one["median"]) if label in seconds else "" for label in PEERS]
        rows.append([f"{int(size):,}", microseconds(one["median"]), microseconds(one["best"]), *peers])
    return lines + table(["bytes", "numbatok, median", "best", *(f"over {label}" for label in PEERS)], rows)


def scaling_section(parts: Parts, draw: Draw) -> list[str]:
    """Threads, and the model of more."""
    figures = figures_of(parts, "scaling")
    speeds, simulated = figures["speeds"], figures["simulated"]
    serial = serial_shares(parts)
    lines = draw(
        "scaling",
        "times one thread: measured, simulated, and what the serial part allows",
        lambda plots: plots.scaling(speeds, simulated, serial),
    )
    rows = []
    for what, by_threads in speeds.items():
        base = by_threads[min(by_threads, key=int)]
        for threads, passes in by_threads.items():
            cells = [f"{short(passes[kind])} ({passes[kind] / base[kind]:.2f})" for kind in KINDS]
            rows.append([f"{what}, {threads}", *cells])
    lines += table(["text, threads", "first, MB/s (over the fewest)", "later, MB/s (over the fewest)"], rows)
    if simulated:
        numbers = list(next(iter(simulated.values())))
        rows = [[what, *(short(found[n]) for n in numbers)] for what, found in simulated.items()]
        for what, share in serial.items():
            most = [1 / (share + (1 - share) / int(n)) for n in numbers]
            rows.append([f"{what}, by Amdahl's law with {share:.1%} serial", *map(short, most)])
        lines += table(["times one worker, by sleeping workers", *numbers], rows)
    return lines


def serial_shares(parts: Parts) -> dict[str, float]:
    """The measured serial parts of a long text and of a batch, of the first text that stages were measured on."""
    for run in finished(parts.get("stages", ())):
        for one in run["figures"]["serial"].values():
            return {what: one[what]["share"] for what in ("long", "batch")}
    return {}


def stages_section(parts: Parts, draw: Draw) -> list[str]:
    """Each kernel alone."""
    figures = figures_of(parts, "stages")
    rows = []
    for name, row in figures["stages"].items():
        cells = [short(row["stage_bytes"] / row["walk"] / 1e9)]
        stages = [row[stage] / row["stage_pretokens"] for stage in ("walk", "positions", "keys", "look-ups")]
        stages += [row["encode"] / row["pretokens"], row["merge"] / row["distinct"]]
        shares = [f"{figures['serial'][name][what]['share']:.1%}" for what in ("batch", "long")]
        rows.append([name, *cells, *(short(one * 1e9) for one in stages), *shares])
    headers = ["", "walk, GB/s", "walk, ns", "positions", "keys", "look-ups", "encode", "merge"]
    return [
        "Nanoseconds a pretoken, all of them in the cache; for merging, a distinct pretoken. *Serial* is the part of a",
        "call in which no worker can help its thread, for 20,000 documents and for one long text.",
        "",
        *table([*headers, "serial, batch", "serial, long"], rows),
    ]


def callers_section(parts: Parts, draw: Draw) -> list[str]:
    """Threads that share a tokenizer."""
    figures = figures_of(parts, "callers")["callers"]
    lines = draw("callers", "encodes a second of all callers together", lambda plots: plots.callers(figures))
    rows = []
    for size, by_callers in figures["numbatok"].items():
        alone = next(iter(by_callers.values()))["rate"]
        for number, one in by_callers.items():
            row = [f"{int(size):,}, {number}", f"{one['rate']:,.0f} ({one['rate'] / alone:.2f})"]
            row += [microseconds(one["cpu"]), f"{one['least']:.2f}"]
            for label in ("gigatoken", "fastokens"):
                peer = figures.get(label, {}).get(size, {}).get(number)
                row.append(ratio(one["rate"] / peer["rate"]) if peer else "")
            rows.append(row)
    headers = ["bytes, callers", "encodes a second (over the fewest)", "processor time", "least share"]
    return lines + table([*headers, "over gigatoken", "over fastokens"], rows)


def memory_section(parts: Parts, draw: Draw) -> list[str]:
    """Resident memory."""
    figures = figures_of(parts, "memory")
    text, calls = figures["text"], figures["calls"]
    lines = draw("memory", "resident memory of one process", lambda plots: plots.memory(text, calls))
    rows = []
    for label in ("numbatok", *PEERS):
        told = text.get(label)
        if told is None:
            continue
        if "error" in told:
            rows.append([label, told["error"], "", "", "", "", ""])
            continue
        row = [label, *(short(told[key] / 1e6) for key in ("loaded", "bytes"))]
        for key in ("peak", "held"):
            row.append(f"{short(told[key] / 1e6)} ({told[key] / told['bytes']:.1f})" if key in told else "")
        grown = [one for one in calls.get(label, ()) if "grown" in one]
        row += [short(one["grown"] / 1e6) for one in (grown[len(grown) // 2 - 1], grown[-1])] if grown else ["", ""]
        rows.append(row)
    headers = [
        "megabytes",
        "loaded",
        "text",
        "more at most (a byte of text)",
        "more after",
        "half the calls",
        "all calls",
    ]
    return lines + table(headers, rows)


def startup_section(parts: Parts, draw: Draw) -> list[str]:
    """From nothing to the first ids."""
    seconds = dict(figures_of(parts, "startup")["seconds"])
    empty = seconds.pop("empty kernel cache", None)
    lines = draw("startup", "milliseconds from the start of the interpreter", lambda plots: plots.startup(seconds))
    rows = []
    for title, one in seconds.items():
        steps = [f"{step * 1e3:.0f}" for step in one["steps"]]
        rows.append([title, f"{one['process'] * 1e3:.0f}", *steps, *[""] * (4 - len(steps))])
    lines += table(["ms", "process", "import", "load", "first encode", "second"], rows)
    if empty:
        slowest = sorted(empty["kernels"].items(), key=lambda item: -item[1])[:3]
        listed = ", ".join(f"{name} {short(spent)} s" for name, spent in slowest)
        lines += [
            f"With an empty kernel cache: {empty['process']:.1f} s until the first ids, once a machine. Every kernel "
            f"there is compiles in {sum(empty['kernels'].values()):.1f} s ({listed}).",
            "",
        ]
    return lines


def growth_section(parts: Parts, draw: Draw) -> list[str]:
    """One piece."""
    results = figures_of(parts, "growth")["results"]
    lines = draw("growth", "milliseconds for one piece of n characters", lambda plots: plots.growth(results))
    rows = []
    for kind, by_side in results.items():
        row = [f"`{kind}`"]
        for label in ("numbatok", *PEERS):
            told = by_side.get(label, [])
            done = [one for one in told if "seconds" in one]
            cell = f"{microseconds(done[-1]['seconds'])}, n = {done[-1]['length']:,}" if done else ""
            broken = next((one["error"] for one in told if "error" in one), None)
            row.append(f"{cell}, then {broken[:40]}" if broken else cell)
        rows.append(row)
    return lines + table(["the longest that ended", "numbatok", *PEERS], rows)


def around_section(parts: Parts, draw: Draw) -> list[str]:
    """Offsets, streams, budgets, rows."""
    figures = figures_of(parts, "around")
    rows = [
        [f"offsets of {name}, over `encode`", *(f"{one[unit] / one['without']:.2f}" for unit in ("char", "byte"))]
        for name, one in figures["offsets"].items()
    ]
    lines = table(["", "in characters", "in bytes"], rows)
    found, over = figures["streams"], figures["budgets"]["over"]
    encoders = ", ".join(f"{short(speed)} ({size})" for size, speed in found["encoders"].items())
    lines += [
        f"- Encoder streams, MB/s by the characters of a part: {encoders}.",
        f"- Decoder streams: {found['decoder']:.0f} ns a token one by one, {found['decoders']:.1f} ns in step.",
    ]
    for name, those in over.items():
        listed = ", ".join(f"{value:.2f} ({what})" for what, value in those.items())
        lines.append(f"- `{name}`, over one `count` of the text: {listed}.")
    if cached := figures["prefix cache"]:
        chat, alike = (cached[name] / cached["without"] for name in ("chat", "alike"))
        lines.append(
            f"- Prefix cache, a million characters and a thousand more: {chat:.1%} of `encode` where each text goes on "
            f"from the one before, {alike:.1%} for texts that go on from the same one."
        )
    one = figures["rows"]
    lines.append(
        f"- `to_padded`: {one['bytes'] / one['to_padded'] / 1e9:.1f} GB/s; filling arrays of that size and copying the "
        f"ids takes {(one['filling'] + one['copying']) / one['to_padded']:.0%} of its time."
    )
    return [*lines, ""]


def compat_section(parts: Parts, draw: Draw) -> list[str]:
    """Other libraries' interfaces."""
    rows = []
    for case, sides in figures_of(parts, "compat")["seconds"].items():
        if {"numbatok", "peer"} <= set(sides):
            medians, bests = ([sides[side][key] for side in ("numbatok", "peer")] for key in ("median", "best"))
            values = [ratio(pair[1] / pair[0]) for pair in (medians, bests)]
            rows.append([case, *map(microseconds, medians), *values])
    return table(["", "numbatok, median", "the library", "ratio", "of bests"], rows)


def pipeline_section(parts: Parts, draw: Draw) -> list[str]:
    """Files to files."""
    figures = figures_of(parts, "pipeline")
    medians = {way: statistics.median(all_of) for way, all_of in figures["seconds"].items()}
    rows = []
    for way, seconds in medians.items():
        row = [way, f"{seconds:.2f}", f"{medians['memory'] / seconds:.0%}" if "memory" in medians else ""]
        row += [f"{min(figures['used'][way]):.2f}", f"{figures['peaks'][way]:.0f}", f"{figures['tokens'][way]:,}"]
        rows.append(row)
    return table(["way", "seconds, median", "speed over memory's", "processor s", "peak MiB", "tokens"], rows)


SECTIONS: dict[str, tuple[str, Callable[..., list[str]]]] = {
    "throughput": ("Throughput by text, GPT-2", throughput_section),
    "vocabularies": ("Throughput by vocabulary", vocabularies_section),
    "documents": ("20,000 short documents as one batch", documents_section),
    "latency": ("One call, by the length of its text", latency_section),
    "scaling": ("Threads", scaling_section),
    "stages": ("Each stage alone", stages_section),
    "callers": ("Many callers of one tokenizer", callers_section),
    "memory": ("Memory", memory_section),
    "startup": ("Start", startup_section),
    "growth": ("One piece that no rule cuts", growth_section),
    "around": ("Offsets, streams, budgets, rows", around_section),
    "compat": ("Programs written for other libraries", compat_section),
    "pipeline": ("Files to files of tokens", pipeline_section),
}
