"""The page bench/RESULTS.md, and the README's table, from what bench/results.json holds."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import throughput
from _common import short
from _sections import (
    KINDS,
    PEERS,
    SECTIONS,
    SPEEDS,
    Draw,
    Parts,
    Run,
    commands,
    finished,
    pair,
    ratios,
    speeds_and_ratios,
    table,
)

NOISY = 0.15  # of a processor, that others may use while a part runs; above it figures are doubted
UNEXPECTED = (KeyError, IndexError, TypeError, ValueError, ZeroDivisionError)  # of figures that are not as wanted


def text_rows(parts: Parts) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """(tokenizer, text, result) of every text that throughput was measured on, by one thread."""
    for part in ("throughput", "vocabularies"):
        for run in finished(parts.get(part, ())):
            for result in run["figures"]["results"]:
                yield run["figures"]["tokenizer"], result["name"], result


def summary(parts: Parts) -> list[str]:
    """The table at the top: numbatok's speed over each peer's, of some texts, and of the first text of others."""
    rows = []
    seen: set[str] = set()
    for tokenizer, name, result in text_rows(parts):
        if tokenizer not in seen or (tokenizer == "gpt2" and name in throughput.FILES):
            rows.append([f"{tokenizer}, {name}", *speeds_and_ratios(result["sides"])])
        seen.add(tokenizer)
    return table(SPEEDS, rows) if rows else []


# --- where numbatok is behind ---


def _behind_in_throughput(parts: Parts) -> Iterator[tuple[str, str, str, float]]:
    for tokenizer, name, result in text_rows(parts):
        for label in PEERS:
            for kind, value in zip(KINDS, ratios(result["sides"], label) or (), strict=False):
                yield label, f"{kind} pass", f"{tokenizer} {name}", value
    for run in finished(parts.get("documents", ())):
        for result in run["figures"]["results"]:
            for label in PEERS:
                for kind, value in zip(KINDS, ratios(result["sides"], label) or (), strict=False):
                    where = f"{run['figures']['tokenizer']} {result['threads']} threads"
                    yield label, f"documents, {kind} pass", where, value


def _behind_elsewhere(parts: Parts) -> Iterator[tuple[str, str, str, float]]:
    for run in finished(parts.get("latency", ())):
        seconds = run["figures"]["seconds"]
        for label in seconds:
            for size, one in seconds["numbatok"].items():
                if label != "numbatok" and size in seconds[label]:
                    yield label, "latency", f"{size} bytes", seconds[label][size]["median"] / one["median"]
    for run in finished(parts.get("callers", ())):
        figures = run["figures"]["callers"]
        for label, by_size in figures.items():
            for size, by_callers in by_size.items():
                for number, one in by_callers.items():
                    if label != "numbatok" and number in figures["numbatok"].get(size, {}):
                        rate = figures["numbatok"][size][number]["rate"]
                        yield label, "callers", f"{number} of {size} bytes", rate / one["rate"]
    for run in finished(parts.get("memory", ())):
        text = run["figures"]["text"]
        for label in text:
            for key, what in (("loaded", "memory when loaded"), ("peak", "memory at most"), ("held", "memory after")):
                if label != "numbatok" and text["numbatok"].get(key) and text[label].get(key):
                    size = 1.0 if key == "loaded" else text[label]["bytes"] / text["numbatok"]["bytes"]
                    yield label, what, "", text[label][key] / size / text["numbatok"][key]
    for run in finished(parts.get("compat", ())):
        for case, sides in run["figures"]["seconds"].items():
            if {"numbatok", "peer"} <= set(sides):
                yield case.split(":")[0], "compat", case, sides["peer"]["median"] / sides["numbatok"]["median"]


def behind(parts: Parts) -> list[str]:
    """A list of all comparisons in which numbatok is slower, or holds more, by peer."""
    found: dict[str, dict[str, list[str]]] = {}
    count = 0
    for label, what, where, value in (*_behind_in_throughput(parts), *_behind_elsewhere(parts)):
        count += 1
        if value < 0.995:
            found.setdefault(label, {}).setdefault(what, []).append(f"{where} {value:.2f}".strip())
    if not found:
        return [f"In none of the {count} comparisons on this page is numbatok behind.", ""]
    lines = [
        f"**Where numbatok is behind**, of {count} comparisons (its speed over the other's, or its memory under):",
        "",
    ]
    for label, by_what in found.items():
        listed = "; ".join(f"{what}: {', '.join(places)}" for what, places in by_what.items())
        lines.append(f"- {label}. {listed}.")
    return [*lines, ""]


# --- the page ---


def _machine(measured: Sequence[Run]) -> Iterator[str]:
    """Where the figures come from, and of which versions."""
    abouts = [run["figures"]["machine"] for run in measured]
    for about in {json.dumps({**about, "cores": 0, "load": 0}): about for about in abouts}.values():
        yield (
            f"{about['processor']}, {about['processors']} processors ({about['architecture']}); {about['system']}; "
            f"Python {about['python']}, numba {about['numba']}, numpy {about['numpy']}."
        )
    versions: dict[str, set[str]] = {}
    for run in measured:
        if run["command"].startswith("python bench/throughput.py"):
            for result in run["figures"]["results"]:
                for label, row in result["sides"].items():
                    versions.setdefault(label, set()).add(row["version"])
    if versions:
        yield ", ".join(f"{label} {' and '.join(sorted(found))}" for label, found in versions.items()) + "."


def _when(runs: Sequence[Run], parts: Parts) -> Iterator[str]:
    """When it was measured, and how quiet it was."""
    dates = sorted(run["date"][:10] for run in runs)
    commits = sorted({run["commit"] for run in runs if run["commit"]})
    minutes = sum(run["seconds"] for run in runs) / 60
    yield (
        f"Measured {' to '.join(dict.fromkeys([dates[0], dates[-1]]))} in {minutes:.0f} minutes "
        f"({' and '.join(sorted({run['mode'] for run in runs}))}{', commit ' * bool(commits)}{', '.join(commits)})."
    )
    others = [run["others"] for run in runs if run["others"] is not None]
    told = [] if runs[0]["load"] is None else [f"load average {runs[0]['load']} at the start"]
    if others:
        told.append(f"others used {min(others):.2f} to {max(others):.2f} processors while a part ran")
    spreads = [result["sides"]["numbatok"][throughput.LATER] for _, _, result in text_rows(parts)]
    if spreads:
        spread = [one["best"] / one["median"] - 1 for one in spreads]
        told.append(f"numbatok's best later pass is {min(spread):.0%} to {max(spread):.0%} faster than its median")
    quiet = max(others, default=0.0) <= NOISY
    yield f"{'; '.join(told).capitalize()}." + ("" if quiet else " **The machine was not quiet: speeds are too low.**")


def _ids(parts: Parts, measured: Sequence[Run]) -> Iterator[str]:
    """Whether ids agree."""
    wrong = [one for run in measured for one in run["figures"].get("wrong", ())]
    if wrong:
        yield from (f"**Wrong:** {one}" for one in wrong)
    elif samples := sum(1 for _ in text_rows(parts)):
        yield f"Ids were compared first, those of all libraries on each of {samples} samples: all equal."


def failures(results: Mapping[str, Any]) -> list[str]:
    """What failed, by part."""
    return [
        f"{part}{' ' + run['label'] if run['label'] else ''}: {run['error']}"
        for part, runs in results["parts"].items()
        for run in runs
        if run["error"]
    ]


HOW = """\
Each benchmark is a script that runs by itself; its command stands with its section. Libraries run in fresh processes,
pinned to cores, that take turns. A *first pass* is that of a process which is warm but has not seen the text; *later
passes* are over the same text again. All get the same `str` and are called in their quickest way, without turning what
they return into an array; tiktoken and tokenizers get only a first part of long texts. Throughput is that of the best
pass, since noise only slows; the ratios of medians and the spread (best over median) stand beside it. Ratios are
numbatok's speed over the other's: above 1 it is faster, **bold** where it is slower. *missed* is the share of pretokens
that the cache did not hold in a first pass, and *time of misses* what they took of it."""


def _guarded(what: str, make: Callable[[], Iterable[str]], broken: list[str]) -> list[str]:
    """Lines, or a line that says why there are none, which is added to ``broken`` too."""
    try:
        return list(make())
    except UNEXPECTED as error:
        broken.append(f"{what}: the figures are not as wanted: {type(error).__name__}: {error}")
        return [f"**Not shown:** {broken[-1]}", ""]


def page(results: Mapping[str, Any], draw: Draw) -> tuple[str, list[str]]:
    """(the text of RESULTS.md, what could not be drawn)."""
    parts = results["parts"]
    broken: list[str] = []
    body: list[str] = []
    for part, (title, section) in SECTIONS.items():
        runs = parts.get(part, [])
        if not runs:
            continue
        body += [f"## {title}", *commands(runs)]
        failed = [run for run in runs if run["error"]]
        body += [f"**Failed{': ' + run['label'] if run['label'] else ''}:** {run['error']}" for run in failed]
        body += [""] * bool(failed)
        if finished(runs):
            body += _guarded(part, partial(section, parts, draw), broken)
    runs = [run for those in parts.values() for run in those]
    about = [lambda: _machine(finished(runs)), lambda: _when(runs, parts), lambda: _ids(parts, finished(runs))]
    top = [f"- {line}" for make in about for line in _guarded("the machine", make, broken) if line]
    compared = [line for make in (summary, behind) for line in _guarded("the summary", partial(make, parts), broken)]
    lines = [
        "# Results",
        "",
        f"Written by `{results['command']}` from [results.json](results.json); `pip install -e '.[bench]'` first.",
        "",
        *top,
        *(f"- {note}" for note in results.get("notes", ())),
        *(f"- **Failed:** {failure}" for failure in failures(results)),
        "",
        *compared,
        "## How it was measured",
        "",
        HOW,
        "",
        *body,
    ]
    return "\n".join(lines).rstrip() + "\n", broken


# --- the README's table ---


def readme_table(results: Mapping[str, Any]) -> str:
    """The speeds that the README shows: a row for each library, a column for each text of the part "throughput"."""
    wanted = [
        result for run in finished(results["parts"].get("throughput", ())) for result in run["figures"]["results"]
    ]
    ours = [result for result in wanted if result["name"] in throughput.FILES] or wanted[:4]
    if not ours:
        raise ValueError("no throughput was measured: run bench/report.py --only throughput")
    rows = []
    for label in ("numbatok", *PEERS):
        cells, versions = [], set()
        for result in ours:
            row = result["sides"].get(label)
            cells.append(" · ".join(short(row[kind]["best"]) for kind in KINDS) if row else "")
            versions |= {row["version"]} if row else set()
        if versions:
            rows.append([f"{label} {', '.join(sorted(versions))}", *cells])
    best = [[throughput.best_peer(result, kind, "best") for kind in KINDS] for result in ours]
    if all(map(all, best)):
        rows.append(["numbatok over the fastest other", *(pair([one[1] for one in both]) for both in best)])
    run = finished(results["parts"]["throughput"])[0]
    about = run["figures"]["machine"]
    lines = table(["MB/s, first pass · later passes", *(result["name"] for result in ours)], rows)
    told = f"GPT-2, one core of {about['processor']}, Python {about['python']}, {run['date'][:10]}: `{run['command']}`."
    return "\n".join([*lines, told])


def markers(text: str) -> tuple[int, int] | None:
    """Where the README's figures begin and end, between ``<!-- figures -->`` and ``<!-- /figures -->``."""
    begin, end = text.find("<!-- figures -->"), text.find("<!-- /figures -->")
    return (begin + len("<!-- figures -->"), end) if 0 <= begin < end else None


def with_figures(text: str, results: Mapping[str, Any]) -> str:
    """The README with the figures of these results; ValueError where it has no place for them."""
    place = markers(text)
    if place is None:
        raise ValueError("no <!-- figures --> before a <!-- /figures --> in it")
    return f"{text[: place[0]]}\n\n{readme_table(results)}\n\n{text[place[1] :]}"
