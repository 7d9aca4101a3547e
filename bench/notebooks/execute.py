"""Run the notebooks of this folder, and keep what comes out.

python bench/notebooks/execute.py [--output FOLDER] [NAME...]

Needs ``pip install numbatok[notebook]``. What is kept depends on the notebook alone: no times, no versions, and no word
of compiling. Cells with the tag ``varies`` have other outputs each time; of all others the tests compare the text.
"""

import argparse
import os
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]


def executed(path: Path) -> Any:
    """A notebook with its outputs, run from its first cell in a kernel of its own with this checkout's numbatok."""
    notebook = nbformat.read(path, as_version=4)
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    NotebookClient(notebook, timeout=600, kernel_name="python3", record_timing=False).execute(env=environment)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
    notebook.metadata = {"kernelspec": notebook.metadata.kernelspec, "language_info": {"name": "python"}}
    return notebook


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--output", type=Path, default=HERE, help="where to write them (default: here)")
    parser.add_argument("names", nargs="*", help="file names (default: all)")
    args = parser.parse_args()
    for path in [HERE / name for name in args.names] or sorted(HERE.glob("*.ipynb")):
        nbformat.write(executed(path), args.output / path.name)


if __name__ == "__main__":
    main()
