"""The plots of the report, each on light and on dark pages. Matplotlib is needed (extra ``bench``), and no display.

A function makes a figure of figures as bench/results.json holds them; :func:`write_both` draws it in both themes.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

#: Colours and markers that can be told apart by those who see fewer colours.
SIDES = {
    "numbatok": ("#e8590c", "o"),
    "gigatoken": ("#2b7fc3", "s"),
    "fastokens": ("#1a936f", "^"),
    "tokenizers-rc": ("#a55fc0", "D"),
    "tiktoken": ("#8a8f98", "v"),
    "tokenizers": ("#c99a06", "P"),
}
THEMES = {"light": ("#24292f", "#d0d7de", "#ffffff"), "dark": ("#e6edf3", "#444c56", "#0d1117")}


def _settings(theme: str) -> dict[str, Any]:
    text, lines, page = THEMES[theme]
    return {
        "axes.edgecolor": lines,
        "axes.facecolor": "none",
        "axes.grid": True,
        "axes.labelcolor": text,
        "axes.spines.right": False,
        "axes.spines.top": False,
        "axes.titlecolor": text,
        "axes.titlesize": "medium",
        "figure.facecolor": page,
        "font.family": "sans-serif",
        "font.size": 9,
        "grid.color": lines,
        "grid.linewidth": 0.5,
        "legend.frameon": False,
        "legend.labelcolor": text,
        "lines.linewidth": 1.4,
        "lines.markersize": 5,
        "svg.fonttype": "none",  # text as text: small files
        "svg.hashsalt": "numbatok",  # the same figures give the same file
        "text.color": text,
        "xtick.color": text,
        "ytick.color": text,
    }


def write(path: Path, theme: str, make: Callable[[], Figure], transparent: bool = True) -> None:
    """Draw a figure in one theme, on the page's own colour or on the theme's."""
    with matplotlib.rc_context(_settings(theme)):
        metadata = {"Date": None} if path.suffix == ".svg" else None
        make().savefig(path, transparent=transparent, metadata=metadata)


def write_both(folder: Path, name: str, make: Callable[[], Figure]) -> None:
    """Draw a figure for light and for dark pages: ``<name>-light.svg`` and ``<name>-dark.svg``."""
    folder.mkdir(parents=True, exist_ok=True)
    for theme in THEMES:
        write(folder / f"{name}-{theme}.svg", theme, make)


def _style(label: str) -> dict[str, Any]:
    color, marker = SIDES.get(label, ("#808080", "x"))
    ours = {"zorder": 4, "markersize": 7} if label == "numbatok" else {"zorder": 3}
    return {"color": color, "marker": marker, "label": label, **ours}


def _plain(value: float, _: Any = None) -> str:
    return f"{value:,.12g}"


def _log(axes: Axes, which: str = "xy") -> None:
    for name in which:
        getattr(axes, f"set_{name}scale")("log")
        axis = getattr(axes, f"{name}axis")
        axis.set_major_formatter(FuncFormatter(_plain))
        axis.set_minor_locator(NullLocator())


def _legend(figure: Figure, axes: Sequence[Axes]) -> None:
    """One legend for all panels, above them."""
    found: dict[str, Any] = {}
    for one in axes:
        for handle, label in zip(*one.get_legend_handles_labels(), strict=True):
            found.setdefault(label, handle)
    figure.legend(found.values(), found.keys(), loc="outside upper center", ncols=min(len(found), 6))


def throughput(rows: Sequence[tuple[str, Mapping[str, Any]]]) -> Figure:
    """MB/s of each side: a line for each (name, sides), a panel for first passes and one for later ones."""
    figure = Figure(figsize=(8, 0.9 + 0.27 * max(len(rows), 3)), layout="constrained")
    panels = figure.subplots(1, 2, sharey=True)
    places = range(len(rows), 0, -1)
    for axes, kind, title in zip(panels, ("first", "later"), ("first pass", "later passes"), strict=True):
        for label in SIDES:
            points = [
                (sides[label][kind]["best"], place)
                for place, (_, sides) in zip(places, rows, strict=True)
                if label in sides
            ]
            if points:
                axes.plot(*zip(*points, strict=True), linestyle="none", **_style(label))
        _log(axes, "x")
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.set(title=title, xlabel="MB/s", yticks=list(places), yticklabels=[name for name, _ in rows])
        axes.set_ylim(0.4, len(rows) + 0.6)
    _legend(figure, panels)
    return figure


def latency(seconds: Mapping[str, Mapping[str, Mapping[str, float]]]) -> Figure:
    """Microseconds of one call by the bytes of its text."""
    figure = Figure(figsize=(8, 4), layout="constrained")
    axes = figure.subplots()
    for label, by_size in seconds.items():
        points = sorted((int(size), one["median"] * 1e6) for size, one in by_size.items())
        axes.plot(*zip(*points, strict=True), **_style(label))
    _log(axes)
    sizes = sorted({int(size) for by_size in seconds.values() for size in by_size})
    axes.set(xlabel="bytes of the text", ylabel="microseconds a call, median", xticks=sizes)
    _legend(figure, [axes])
    return figure


def scaling(
    speeds: Mapping[str, Mapping[Any, Mapping[str, float]]],
    simulated: Mapping[str, Mapping[Any, float]],
    serial: Mapping[str, float],
) -> Figure:
    """Times one thread, measured and simulated, by threads; and the curve of the model for each serial part."""
    figure = Figure(figsize=(8, 4.5), layout="constrained")
    axes = figure.subplots()
    colors = {"long": SIDES["gigatoken"][0], "batch": SIDES["numbatok"][0]}
    names = {"long": "one long text", "batch": "20,000 short texts"}
    counts = [1, *(int(n) for found in (*simulated.values(), *speeds.values()) for n in found)]
    numbers = [2 ** (n / 4) for n in range(4 * (max(counts).bit_length() - 1) + 1)]
    axes.plot(numbers, numbers, linewidth=0.8, color="#8a8f98", label="ideal")
    for what, share in serial.items():
        curve = [1 / (share + (1 - share) / n) for n in numbers]
        axes.plot(numbers, curve, "--", color=colors[what], label=f"{names[what]}: model, {share:.1%} serial")
    for what, by_workers in simulated.items():
        points = sorted((int(n), times) for n, times in by_workers.items())
        axes.plot(*zip(*points, strict=True), "x:", color=colors[what], label=f"{names[what]}: sleeping workers")
    for what, by_threads in speeds.items():
        base = by_threads[min(by_threads, key=int)]
        for which, marker in (("first", "o"), ("later", "s")):
            points = sorted((int(n), passes[which] / base[which]) for n, passes in by_threads.items())
            style = {"color": colors[what], "marker": marker, "linestyle": "-" if which == "later" else "-."}
            axes.plot(*zip(*points, strict=True), label=f"{names[what]}: measured, {which} pass", **style)
    _log(axes)
    ticks = [2**n for n in range(max(counts).bit_length())]
    axes.set(xlabel="threads", ylabel="times one thread", xticks=ticks, yticks=ticks)
    axes.legend(fontsize="small")
    return figure


def callers(figures: Mapping[str, Mapping[str, Mapping[str, Mapping[str, float]]]]) -> Figure:
    """Encodes a second of all callers together, by their number: a panel for each size of text."""
    sizes = sorted({int(size) for by_size in figures.values() for size in by_size})
    figure = Figure(figsize=(8, 3.2), layout="constrained")
    panels = figure.subplots(1, len(sizes), squeeze=False)[0]
    for axes, size in zip(panels, sizes, strict=True):
        numbers: set[int] = set()
        for label, by_size in figures.items():
            points = sorted((int(n), one["rate"]) for n, one in by_size.get(str(size), {}).items())
            if points:
                axes.plot(*zip(*points, strict=True), **_style(label))
                numbers.update(n for n, _ in points)
        _log(axes, "x")
        axes.yaxis.set_major_formatter(FuncFormatter(_plain))
        axes.set(title=f"texts of {size:,} bytes", xlabel="callers", xticks=sorted(numbers))
        axes.set_ylim(bottom=0)
    panels[0].set_ylabel("encodes a second")
    _legend(figure, panels)
    return figure


def memory(text: Mapping[str, Mapping[str, Any]], calls: Mapping[str, Sequence[Mapping[str, Any]]]) -> Figure:
    """Bytes a byte of text, while it is encoded and after; and megabytes more by the number of calls."""
    figure = Figure(figsize=(8, 3.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    labels = [label for label in SIDES if "held" in text.get(label, {})]
    for place, label in enumerate(labels):
        told, color = text[label], SIDES[label][0]
        if "peak" in told:
            left.barh(-place - 0.2, told["peak"] / told["bytes"], 0.38, color=color)
        left.barh(-place + 0.2, told["held"] / told["bytes"], 0.38, color=color, alpha=0.45)
    left.set_xscale("symlog", linthresh=10)
    left.xaxis.set_major_formatter(FuncFormatter(_plain))
    left.set(yticks=[-place for place in range(len(labels))], yticklabels=labels, xlabel="bytes a byte of text")
    left.set_title("one text: at most (full), held after (pale)")
    left.grid(visible=False, axis="y")
    for label, reports in calls.items():
        points = [(told["calls"], told["grown"] / 1e6) for told in reports if "grown" in told]
        if points:
            style = _style(label) | {"marker": ""}
            right.plot(*zip((0, 0), *points, strict=True), **style)
    right.xaxis.set_major_formatter(FuncFormatter(_plain))
    right.set(title="calls of unseen text", xlabel="calls", ylabel="megabytes more")
    right.legend(fontsize="small")
    return figure


def startup(seconds: Mapping[str, Mapping[str, Any]]) -> Figure:
    """Seconds from the start of the interpreter: its own, and of the program's steps."""
    rows = [(title, one) for title, one in seconds.items() if "steps" in one]
    figure = Figure(figsize=(8, 0.9 + 0.32 * len(rows)), layout="constrained")
    axes = figure.subplots()
    names = ("interpreter", "import", "load", "first encode", "second encode")
    colors = ("#8a8f98", SIDES["gigatoken"][0], SIDES["fastokens"][0], SIDES["numbatok"][0], SIDES["tokenizers"][0])
    for place, (_, one) in enumerate(rows):
        at = 0.0
        for color, width in zip(colors, [one["process"] - sum(one["steps"]), *one["steps"]], strict=False):
            axes.barh(-place, width * 1e3, 0.6, at * 1e3, color=color)
            at += width
    for name, color in zip(names, colors, strict=True):
        axes.barh(0, 0, color=color, label=name)
    axes.set(yticks=[-place for place in range(len(rows))], yticklabels=[title for title, _ in rows])
    axes.set_xlabel("milliseconds")
    axes.grid(visible=False, axis="y")
    _legend(figure, [axes])
    return figure


def growth(results: Mapping[str, Mapping[str, Sequence[Mapping[str, Any]]]]) -> Figure:
    """Milliseconds by the length of one piece: a panel for each kind of piece."""
    figure = Figure(figsize=(8, 3.2), layout="constrained")
    panels = figure.subplots(1, len(results), sharey=True, squeeze=False)[0]
    for axes, (kind, by_side) in zip(panels, results.items(), strict=True):
        for label, reports in by_side.items():
            points = [(told["length"], told["seconds"] * 1e3) for told in reports if "seconds" in told]
            if points:
                axes.plot(*zip(*points, strict=True), **_style(label))
        _log(axes)
        axes.set(title=kind, xlabel="n")
    panels[0].set_ylabel("milliseconds")
    _legend(figure, panels)
    return figure
