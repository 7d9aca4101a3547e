"""Write the API reference as HTML, from the docstrings, by pdoc.

    python bench/reference.py api          # a folder, which is made if need be; a warning of pdoc's is an error

pdoc sees neither names that are imported when they are used nor this house's docstrings: so the names are looked up
first, and a docstring's sections, ``name : meaning`` lists, roles and examples are turned into Markdown here.
"""

import argparse
import importlib
import inspect
import re
import warnings
from pathlib import Path

import pdoc
import pdoc.docstrings

#: The modules that programs import; what each has is its ``__all__``.
MODULES = (
    "numbatok",
    "numbatok.kernels.inside",
    "numbatok.pipelines",
    "numbatok.pipelines.arrow",
    "numbatok.pipelines.ray",
    "numbatok.compat.tiktoken",
    "numbatok.compat.huggingface",
)

_ROLE = re.compile(r":\w+:`~?([^`]+)`")
_LITERAL = re.compile(r"``(.+?)``")
_HEADING = re.compile(r"(\w[\w ]*)\n-{3,}\n")
_ITEM = re.compile(r"(\*?[\w.,* ]+|\([\w, ]+\)) : (.*)")


def markdown(docstring: str, *_: object) -> str:
    """A docstring of this house in Markdown."""
    text = _HEADING.sub(r"**\1**\n", inspect.cleandoc(docstring))
    text = _ROLE.sub(r"`\1`", text)
    text = _LITERAL.sub(r"`\1`", text)
    lines: list[str] = []
    in_example = False
    for line in text.split("\n"):
        begins = line.startswith(">>> ")
        if in_example and not line.strip():
            lines.append("```")
            in_example = False
        if begins and not in_example:
            lines += ["", "```pycon"]
            in_example = True
        item = None if in_example else _ITEM.fullmatch(line)
        if item:
            names = re.sub(r"\w+", lambda name: f"`{name[0]}`", item[1])
            line = f"* {names}: {item[2]}"
        elif not in_example and re.fullmatch(r"\*\*\w[\w ]*\*\*", line):
            line = f"\n{line}\n"
        lines.append(line)
    return "\n".join([*lines, "```"] if in_example else lines)


def write(folder: Path) -> None:
    """Write the reference of all modules to a folder."""
    for name in MODULES:
        module = importlib.import_module(name)
        for public in module.__all__:
            vars(module)[public] = getattr(module, public)
    pdoc.docstrings.convert = markdown
    pdoc.render.configure(show_source=False, search=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # Run in the repository with numbatok installed, pdoc asks which of the two is meant: the one that is imported.
        warnings.filterwarnings("ignore", "'numbatok.*may refer to either the installed", RuntimeWarning)
        pdoc.pdoc(*MODULES, output_directory=folder)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Write the API reference as HTML.")
    parser.add_argument("folder", type=Path)
    write(parser.parse_args().folder)
