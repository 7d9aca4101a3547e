"""The report of the benchmarks: the page, the plots and the README's table, from made-up figures. Nothing is timed."""

import importlib
import json
import sys
from pathlib import Path
from typing import Any

import pytest

BENCH = Path(__file__).resolve().parents[1] / "bench"
README = BENCH.parent / "README.md"
SIDES = ("numbatok", "gigatoken", "fastokens", "tokenizers-rc", "tiktoken", "tokenizers")
PEERS = SIDES[1:]


@pytest.fixture(scope="module")
def bench():
    """Imports a script of the benchmarks by its name."""
    sys.path.insert(0, str(BENCH))
    yield importlib.import_module
    sys.path.remove(str(BENCH))


def result_of(name: str, threads: int = 1) -> dict[str, Any]:
    """What throughput.py has to say of a text: gigatoken is faster than numbatok, the others slower."""
    speeds = dict(zip(SIDES, (200.0, 250.0, 100.0, 80.0, 10.0, 2.0), strict=True))
    sides = {
        label: {
            "version": "1.2",
            "bytes": 1000,
            **{
                kind: {
                    "seconds": [1e-5],
                    "best": speed * factor,
                    "median": speed * factor / 1.1,
                    "ns_a_pretoken": 20.0,
                    "ratio_best": 200.0 / speed,
                    "ratio_median": 200.0 / speed,
                }
                for kind, factor in (("first", 1), ("later", 2))
            },
        }
        for label, speed in speeds.items()
    }
    return {
        "name": name,
        "bytes": 1000,
        "threads": threads,
        "ids": 300,
        "digest": "d1",
        "left_out": {"fastokens": "ValueError: not supported"},
        "pretokens": 250,
        "shares_of_core": [0.99],
        "sides": sides,
        "numbatok": {"pretokens": 250, "missed": 20, "merged_bytes": 100, "time_of_misses": 0.5},
    }


def figures() -> dict[str, dict[str, Any]]:
    """What each benchmark writes, by part."""
    both = {"best": 1e-6, "median": 2e-6}
    machine = {
        "processor": "Made-up 9000",
        "architecture": "x86_64",
        "processors": 2,
        "cores": [0],
        "system": "Linux",
        "python": "3.11.7",
        "numba": "0.68.1",
        "numpy": "2.4.6",
        "load": 0.1,
    }
    step = {"process": 0.5, "steps": [0.1, 0.05, 0.2, 0.001]}
    callers = {"256": {"1": {"rate": 1e5, "cpu": 1e-5, "least": 1.0}, "8": {"rate": 1.5e5, "cpu": 2e-5, "least": 0.9}}}
    text = {"bytes": 1000, "ids": 300, "loaded": 10**8, "held": 10**6, "peak": 2 * 10**6}
    stage = {"bytes": 1000, "pretokens": 250, "stage_bytes": 900, "stage_pretokens": 225, "walk": 1e-6, "encode": 1e-5}
    stage |= {"positions": 1e-6, "keys": 1e-6, "look-ups": 2e-6, "merge": 1e-5, "distinct": 100, "distinct_bytes": 500}
    serial = {"batch": {"seconds": 1e-3, "share": 0.08}, "long": {"seconds": 1e-4, "share": 0.01}}
    speeds = {"1": {"first": 100.0, "later": 200.0}, "2": {"first": 150.0, "later": 380.0}}
    made = {
        "throughput": {"tokenizer": "gpt2", "results": [result_of("english-web"), result_of("code")], "wrong": []},
        "vocabularies": {"tokenizer": "o200k_base", "results": [result_of("english-web")], "wrong": []},
        "documents": {"tokenizer": "deepseek_v4", "results": [result_of("some", n) for n in (1, 2)], "wrong": []},
        "latency": {"seconds": {label: {"16": both, "1024": both} for label in SIDES}, "versions": {}},
        "scaling": {
            "speeds": dict.fromkeys(("long", "batch"), speeds),
            "simulated": {"long": {"1": 1, "64": 61.0}},
        },
        "stages": {"stages": {"english-web": stage}, "serial": {"english-web": serial}},
        "callers": {"callers": dict.fromkeys(SIDES[:3], callers)},
        "memory": {
            "text": dict.fromkeys(SIDES[:-1], text) | {"tokenizers": {"error": "no end after 300 s"}},
            "calls": {"numbatok": [{"calls": 10 * n, "grown": 10**5 * n} for n in range(1, 11)]},
        },
        "startup": {
            "seconds": {"import numpy": {"process": 0.1, "steps": [0.05]}, "first ids, warm kernel cache": step}
            | {"empty kernel cache": {"process": 23.0, "first_encode": 22.0, "kernels": {"encode_text": 7.0}}}
        },
        "growth": {"results": {'"a" * n': {label: [{"length": 1000, "seconds": 1e-4}] for label in SIDES[:2]}}},
        "around": {
            "offsets": {"one text": {"without": 1e-3, "char": 1.4e-3, "byte": 1.2e-3}},
            "streams": {"encoders": {"16": 9.0}, "decoder": 105.0, "decoders": 6.0},
            "budgets": {"count": 1e-3, "over": {"fits": {"5%": 0.06}}},
            "prefix cache": {"chat": 1e-5, "alike": 1e-5, "without": 1e-3},
            "rows": {"bytes": 10**9, "to_padded": 0.1, "filling": 0.08, "copying": 0.03},
        },
        "compat": {"seconds": {"tiktoken: encode, 28 bytes": {"numbatok": both, "peer": both}}},
        "pipeline": {
            **{name: {"memory": value, "text": value} for name, value in (("seconds", [1.0]), ("used", [2.0]))},
            "peaks": {"memory": 500.0, "text": 400.0},
            "tokens": {"memory": 300, "text": 300},
        },
    }
    made["growth"]["results"]['"a" * n']["tiktoken"] = [{"error": "no end after 60 s"}]
    return {part: {"machine": machine, **content} for part, content in made.items()}


def results_of(**changed: Any) -> dict[str, Any]:
    """What results.json holds; of the parts that are named, other runs."""
    about = {"date": "2026-01-02 03:04", "mode": "quick", "commit": "abc1234", "load": 0.1, "others": 0.02}
    parts = {
        part: [
            {"label": "", "command": f"python bench/{part}.py", "seconds": 1.0, "error": None, **about, "figures": own}
        ]
        for part, own in figures().items()
    }
    for part, change in changed.items():
        parts[part][0] |= change
    return {"command": "python bench/report.py --quick", "notes": [], "parts": parts}


def redraw(bench, folder: Path, results: dict[str, Any], monkeypatch) -> tuple[int, str]:
    """(exit status, the page) of the report without measuring."""
    pytest.importorskip("matplotlib", reason="plots need matplotlib (extra bench)")
    report = bench("report")
    report.write_results(folder / "results.json", results)
    assert json.loads((folder / "results.json").read_text()) == json.loads(json.dumps(results))
    monkeypatch.setattr(sys, "argv", ["report.py", "--redraw", "--folder", str(folder)])
    return report.main(), (folder / "RESULTS.md").read_text()


def test_page_shows_every_part(bench, tmp_path, monkeypatch):
    status, page = redraw(bench, tmp_path, results_of(), monkeypatch)
    assert status == 0
    for title, _ in bench("_sections").SECTIONS.values():
        assert f"\n## {title}\n" in page
    assert "Not shown" not in page
    assert "Failed" not in page
    assert "Made-up 9000" in page
    assert "numbatok 1.2" in page
    assert page.count("\n") < 250
    plots = {path.name for path in (tmp_path / "plots").iterdir()}
    assert {name for name in plots if f"plots/{name}" not in page} == set()
    assert len(plots) == 16
    assert all(path.stat().st_size < 100_000 for path in (tmp_path / "plots").iterdir())


def test_plots_are_the_same_again_and_go_with_their_part(bench, tmp_path, monkeypatch):
    results = results_of()
    results["parts"] = {part: results["parts"][part] for part in ("latency", "growth")}
    first = redraw(bench, tmp_path, results, monkeypatch)
    files = {path: path.read_bytes() for path in (tmp_path / "plots").iterdir()}
    assert len(files) == 4
    assert redraw(bench, tmp_path, results, monkeypatch) == first
    assert {path: path.read_bytes() for path in (tmp_path / "plots").iterdir()} == files
    del results["parts"]["growth"]
    redraw(bench, tmp_path, results, monkeypatch)
    assert {path.name for path in (tmp_path / "plots").iterdir()} == {"latency-dark.svg", "latency-light.svg"}


def page_of(bench, results: dict[str, Any]) -> tuple[str, list[str]]:
    """(the page, what could not be shown), without plots."""
    return bench("_page").page(results, lambda *_: [])


def test_page_says_where_numbatok_is_behind(bench):
    page, _ = page_of(bench, results_of())
    assert "| **0.80** · **0.80** | 2.00 · 2.00 |" in page
    behind = next(line for line in page.splitlines() if line.startswith("- gigatoken. "))
    assert "first pass: gpt2 english-web 0.80, gpt2 code 0.80, o200k_base english-web 0.80" in behind
    assert not any(line.startswith("- fastokens. ") for line in page.splitlines())


def test_failures_are_named_and_the_rest_is_shown(bench):
    changes = {"pipeline": {"error": "exit status 1", "figures": None}, "stages": {"figures": {"machine": {}}}}
    page, broken = page_of(bench, results_of(**changes))
    assert any("stages: the figures are not as wanted: KeyError" in one for one in broken)
    assert "**Failed:** pipeline: exit status 1" in page
    assert "**Not shown:** stages: " in page
    assert "## Memory" in page


def test_different_ids_are_named(bench):
    own = figures()["throughput"] | {"wrong": ["DIFFERENT IDS on code"]}
    page, _ = page_of(bench, results_of(throughput={"error": "exit status 1", "figures": own}))
    assert "**Wrong:** DIFFERENT IDS on code" in page
    assert "all equal" not in page


def test_busy_machine_is_named(bench):
    assert "not quiet" not in page_of(bench, results_of())[0]
    assert "**The machine was not quiet" in page_of(bench, results_of(callers={"others": 1.5}))[0]


def test_commands_that_differ_in_their_tokenizer_are_one(bench):
    results = results_of()
    (run,) = results["parts"]["vocabularies"]
    results["parts"]["vocabularies"] = [
        run | {"label": name, "command": f"python bench/throughput.py -t {name}"} for name in ("one", "two")
    ]
    page, _ = page_of(bench, results)
    assert "`python bench/throughput.py -t NAME` with NAME one, two (2 s; others used 0.02 processors)\n" in page


def test_redraw_without_results_says_what_to_do(bench, tmp_path, monkeypatch, capsys):
    pytest.importorskip("matplotlib", reason="plots need matplotlib (extra bench)")
    monkeypatch.setattr(sys, "argv", ["report.py", "--redraw", "--folder", str(tmp_path)])
    with pytest.raises(SystemExit) as exit_info:
        bench("report").main()
    assert exit_info.value.code == 2
    assert "run bench/report.py first" in capsys.readouterr().err


def test_refuses_a_busy_machine(bench, tmp_path, monkeypatch, capsys):
    pytest.importorskip("matplotlib", reason="plots need matplotlib (extra bench)")
    report = bench("report")
    monkeypatch.setattr(report, "load_average", lambda: 3.0)
    monkeypatch.setattr(sys, "argv", ["report.py", "--max-load", "0.5", "--folder", str(tmp_path)])
    assert report.main() == 2
    assert "load average is 3.0" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_part_that_fails_is_told(bench, capsys):
    told = bench("report").run(("", "no_such_benchmark.py", []), quick=True, verbose=False)
    assert told["error"] == "exit status 2"
    assert told["figures"] is None


@pytest.mark.parametrize("quick", [True, False])
def test_commands_without_test_data(bench, monkeypatch, quick):
    report = bench("report")
    monkeypatch.setenv("NUMBATOK_TEST_DATA", "none")
    found, notes = report.without_data(report.commands(quick))
    assert set(found) == set(report.commands(quick))
    labels = {label for label, _, _ in found["vocabularies"]}
    assert labels == {"o200k_base"}
    assert not any("--files" in arguments for those in found.values() for _, _, arguments in those)
    assert any("There is no test data" in note for note in notes)


@pytest.mark.parametrize("quick", [True, False])
def test_scripts_take_their_arguments(bench, monkeypatch, quick):
    """Each command's script parses it; what comes after that is cut off."""
    report, common = bench("report"), bench("_common")

    class Parsed(Exception):
        pass

    def stop(*_: Any) -> None:
        raise Parsed

    for those in report.commands(quick).values():
        for _, script, arguments in those:
            if script == "stages.py":
                continue  # it compiles when it is imported
            module = bench(script.removesuffix(".py"))
            monkeypatch.setattr(common, "pin", stop)
            monkeypatch.setattr(common, "machine", stop)
            monkeypatch.setattr(sys, "argv", [script, *arguments, "--json", "x.json"])
            with pytest.raises(Parsed):
                module.main()


def test_readme_table(bench):
    page = bench("_page")
    text = "# Title\n<!-- figures -->\nold\n<!-- /figures -->\nend\n"
    new = page.with_figures(text, results_of())
    assert "old" not in new
    assert "| numbatok 1.2 | 200 · 400 | 200 · 400 |" in new
    assert "| numbatok over the fastest other | **0.80** · **0.80** |" in new
    assert "2026-01-02" in new
    assert new.startswith("# Title\n<!-- figures -->\n\n|")
    assert new.endswith("\n\n<!-- /figures -->\nend\n")
    assert page.with_figures(new, results_of()) == new
    with pytest.raises(ValueError, match="no <!-- figures -->"):
        page.with_figures("no place", results_of())
    with pytest.raises(ValueError, match="--only throughput"):
        page.with_figures(text, {"parts": {}})


def test_readme_shows_the_figures_of_results_json(bench):
    page = bench("_page")
    text = README.read_text(encoding="utf-8")
    results = json.loads((BENCH / "results.json").read_text(encoding="utf-8"))
    assert page.with_figures(text, results) == text, "run: python bench/report.py --readme"
