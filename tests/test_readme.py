"""What the README shows: its examples run, in order, in one folder, and give what they show; its drawings are there."""

import doctest
import gzip
import importlib.util
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import numbatok
from support import PACKAGE, TESTS

ROOT = TESTS.parent
README = ROOT / "README.md"

if not README.is_file():
    pytest.skip("the README is not beside the tests", allow_module_level=True)

TEXT = README.read_text(encoding="utf-8")
#: Libraries that an example imports for its own sake.
OPTIONAL = {"pyarrow", "ray", "transformers"}


class Block(NamedTuple):
    """A block of code."""

    line: int
    language: str
    code: str
    not_run: str  # why, or nothing


def blocks() -> list[Block]:
    """The README's blocks of code, but for the two commands, which the gate runs."""
    pattern = re.compile(r"(?:<!-- not run: (.*?) -->\n)?^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
    found = [
        Block(TEXT.count("\n", 0, match.start(3)) + 1, match[2], match[3], match[1] or "")
        for match in pattern.finditer(TEXT)
    ]
    assert [block.language for block in found[:2]] == ["sh", "sh"]
    return found[2:]


class Shared:
    """What the blocks before have left: names, and how many blocks were run."""

    def __init__(self) -> None:
        self.names: dict[str, Any] = {"__name__": "__main__"}
        self.done = 0


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shared]:
    """A folder with what the examples read, as the current one; what they set for the process is set back."""
    folder = tmp_path_factory.mktemp("readme")
    before = Path.cwd()
    os.chdir(folder)
    Path("corpus").mkdir()
    Path("corpus/notes.txt").write_text("Hello world\n", encoding="utf-8")
    lines = b"".join(b'{"text": "Document %d of a corpus."}\n' % number for number in range(20))
    Path("corpus/lines.jsonl.gz").write_bytes(gzip.compress(lines))
    Path("bin").mkdir()
    command = Path("bin/numbatok")
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m numbatok "$@"\n', encoding="utf-8")
    command.chmod(0o755)
    yield Shared()
    os.chdir(before)
    numbatok.set_num_threads(None)
    numbatok.set_cache_budget(None)


def run_shell(block: Block) -> None:
    """Run a block of commands, of which each has to end well."""
    if os.name != "posix":
        pytest.skip("needs a POSIX shell")
    environment = {**os.environ, "PATH": f"{Path.cwd() / 'bin'}{os.pathsep}{os.environ['PATH']}"}
    environment["PYTHONPATH"] = os.pathsep.join([str(PACKAGE.parent), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        ["sh", "-e"], input=block.code, env=environment, capture_output=True, text=True, encoding="utf-8", timeout=300
    )
    assert done.returncode == 0, done.stderr


def run_session(block: Block, names: dict[str, Any]) -> None:
    """Run a session, and compare all that it shows."""
    test = doctest.DocTestParser().get_doctest(block.code, names, f"README.md:{block.line}", None, 0)
    report: list[str] = []
    test.globs = names  # get_doctest copies them
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    doctest.DocTestRunner(optionflags=flags).run(test, out=report.append, clear_globs=False)
    text = "".join(report)
    missing = re.search(r"No module named '(\w+)'", text)
    if missing and missing[1] in OPTIONAL:
        pytest.skip(f"needs {missing[1]}")
    assert not report, text


def run_program(block: Block, names: dict[str, Any]) -> None:
    """Run a program; from a file, since Numba caches only what has one."""
    path = Path(f"line_{block.line}.py").resolve()
    path.write_text(block.code, encoding="utf-8")
    try:
        exec(compile(block.code, str(path), "exec"), names)
    except ModuleNotFoundError as error:
        if error.name not in OPTIONAL:
            raise
        pytest.skip(f"needs {error.name}")


def run(block: Block, shared: Shared) -> None:
    """Run a block."""
    if block.language == "sh":
        run_shell(block)
    elif block.language == "pycon":
        run_session(block, shared.names)
    else:
        if "import ray" in block.code:
            parquet = pytest.importorskip("pyarrow.parquet")
            table = {"text": ["Hello world", "again"]}
            parquet.write_table(pytest.importorskip("pyarrow").table(table), "texts.parquet")
        run_program(block, shared.names)


BLOCKS = blocks()


@pytest.mark.filterwarnings("default")  # of other libraries
@pytest.mark.parametrize(
    "number",
    [
        pytest.param(number, id=f"line {block.line}", marks=[pytest.mark.ray] if "import ray" in block.code else [])
        for number, block in enumerate(BLOCKS)
    ],
)
def test_examples(number: int, shared: Shared) -> None:
    """Each block runs after those before it, of which some may not have been asked for."""
    if BLOCKS[number].not_run:
        pytest.skip(BLOCKS[number].not_run)
    for earlier in BLOCKS[shared.done : number]:
        if earlier.language == "pycon" and not earlier.not_run and "pyarrow" not in earlier.code:
            run(earlier, shared)
    shared.done = number + 1
    run(BLOCKS[number], shared)


def test_every_public_name_is_shown() -> None:
    """Each public function and method stands in the README, or belongs to what is made by one that does."""
    named = set(re.findall(r"\w+", TEXT))
    missing = []
    for home in (numbatok, numbatok.Tokenizer, numbatok.TokenBatch):
        names = home.__all__ if home is numbatok else vars(home)
        for name in names:
            if not name.startswith("_") and name.islower() and callable(getattr(home, name)) and name not in named:
                missing.append(name)
    assert not missing


def test_links_and_drawings() -> None:
    """Every link to a file leads to one, and to a heading to one; drawings are there for both themes."""
    headings = {re.sub(r"[^\w\- ]", "", line.lower()).replace(" ", "-") for line in re.findall(r"^#+ (.*)", TEXT, re.M)}
    others = [(ROOT / name).read_text(encoding="utf-8") for name in ("CONTRIBUTING.md", "CHANGELOG.md")]
    for link in re.findall(r"\]\(([^)]+)\)", "\n".join([TEXT, *others])):
        if link.startswith("#"):
            assert link[1:] in headings, link
        elif not link.startswith("https:"):
            assert (ROOT / link).exists(), link
    drawings = re.findall(r'(?:srcset|src)="(bench/drawings/(\w+)-(dark|light)\.svg)"', TEXT)
    assert len(drawings) == 10
    for path, name, theme in drawings:
        root = ElementTree.parse(ROOT / path).getroot()
        assert root.tag.endswith("svg")
        assert (ROOT / f"bench/drawings/{name}-{'light' if theme == 'dark' else 'dark'}.svg").is_file()


def test_drawings_are_those_of_their_script() -> None:
    """And what they show of a text is what numbatok makes of it."""
    path = ROOT / "bench" / "drawings" / "draw.py"
    spec = importlib.util.spec_from_file_location("draw", path)
    assert spec is not None
    assert spec.loader is not None
    draw = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(draw)
    for name, content in draw.drawn().items():
        assert (path.parent / name).read_text(encoding="utf-8") == content, name


def test_speed_stands_between_its_marks() -> None:
    """Where bench/report.py writes it."""
    assert TEXT.count("<!-- figures -->") == TEXT.count("<!-- /figures -->") == 1
    assert TEXT.index("<!-- figures -->") < TEXT.index("<!-- /figures -->")
