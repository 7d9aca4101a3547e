"""The notebooks run from their first cell to their last, and what they keep is what comes out."""

import json
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import support

FOLDER = support.TESTS.parent / "bench" / "notebooks"
NOTEBOOKS = sorted(path.name for path in FOLDER.glob("*.ipynb"))
MOST_BYTES = 256 << 10  # of a notebook with its outputs

missing = [name for name in ("nbclient", "ipykernel", "matplotlib") if find_spec(name) is None]
needs_jupyter = pytest.mark.skipif(bool(missing), reason=f"not installed: {', '.join(missing)} (numbatok[notebook])")

# A notebook whose second and third cells wait for kernels that no cache has.
COMPILING = """
    import sys
    import nbformat
    from nbclient import NotebookClient

    cells = [
        "from numbatok.kernels import normal, pieces, text",
        "kernels = pieces.count_characters.compiled(), text.locate_text.compiled()",
        "kernel = normal.next_restless.compiled()",
    ]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    NotebookClient(notebook, kernel_name="python3").execute()
    print([[(output.name, output.text) for output in cell.outputs] for cell in notebook.cells])
"""


def stored(path: Path) -> list[dict]:
    """The cells of a notebook that hold code."""
    return [cell for cell in json.loads(path.read_text("utf-8"))["cells"] if cell["cell_type"] == "code"]


def texts(cell: dict) -> list[tuple[str, ...]]:
    """The outputs of a cell as people see them: HTML where there is some, else text; of images that there is one.

    What a cell prints comes in one piece or several, as it happens: it is joined.
    """
    found = []
    for output in cell["outputs"]:
        data = output.get("data", {})
        if "image/png" in data:
            found.append(("image",))
        elif "text/html" in data:
            found.append(("html", "".join(data["text/html"])))
        elif "text" in output and found and found[-1][0] == "printed":
            found[-1] = "printed", found[-1][1] + "".join(output["text"])
        elif "text" in output:
            found.append(("printed", "".join(output["text"])))
        else:
            found.append(("text", "".join(data["text/plain"])))
    return found


def test_there_are_notebooks():
    assert NOTEBOOKS == ["corpus.ipynb", "first_tour.ipynb"]


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_stored(name):
    """Executed in order, small, without traces of the machine or of scripts."""
    content = (FOLDER / name).read_text("utf-8")
    cells = stored(FOLDER / name)
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    assert len(content) < MOST_BYTES
    assert not re.search('<script|<style|/home/|/tmp/|/root/|stderr|"traceback"', content)
    assert json.loads(content)["metadata"]["language_info"] == {"name": "python"}


@needs_jupyter
@pytest.mark.parametrize("name", NOTEBOOKS)
def test_executed(name, tmp_path):
    """Nothing raises, and but for cells that say otherwise the outputs are those that are kept."""
    command = [sys.executable, FOLDER / "execute.py", "--output", tmp_path, name]
    done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", timeout=600)
    assert done.returncode == 0, done.stderr
    for cell, wanted in zip(stored(tmp_path / name), stored(FOLDER / name), strict=True):
        assert cell["source"] == wanted["source"]
        if "varies" in cell["metadata"].get("tags", ()):
            assert len(texts(cell)) == len(texts(wanted))
        else:
            assert texts(cell) == texts(wanted), "".join(cell["source"])


@needs_jupyter
def test_compiling_is_announced_once(tmp_path):
    """One line, on standard error, in the cell that waits first."""
    output = support.output_of(COMPILING, NUMBA_CACHE_DIR=str(tmp_path))
    line = r"numbatok: compiling kernels that are used for the first time, [a-z ]+ \(numbatok warmup does it ahead\)\\n"
    assert re.fullmatch(rf"\[\[\], \[\('stderr', '{line}'\)\], \[\]\]\n", output)
