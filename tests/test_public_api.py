"""The public API: what is exported, that it is documented, that its examples run, and that a reference can be made."""

import doctest
import gzip
import importlib
import inspect
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import numbatok
from support import PACKAGE, TESTS

BENCH = TESTS.parent / "bench"

#: All that programs may rely on: the names of each module, and the public members of its classes are theirs.
PUBLIC = {
    "numbatok": [
        *("AddedToken", "BatchStreamDecoder", "CacheInfo", "Chunk", "Display", "Explanation", "Merge", "Packed"),
        *("Piece", "PrefixCache", "PrefixCacheInfo", "StreamDecoder", "StreamEncoder", "TokenBatch", "Tokenizer"),
        *("VocabularyError", "VocabularyRow", "VocabularyTable", "Windows", "__version__"),
        *("encoding_for_model", "encoding_name_for_model", "get_cache_budget", "get_encoding", "get_num_threads"),
        *("open_tokens", "set_cache_budget", "set_num_threads"),
    ],
    "numbatok.kernels": ["count_in", "decode_into", "encode_into"],
    "numbatok.kernels.inside": [
        *("DONE", "NO_ROOM", "OTHER_SCRATCH", "ROOM", "STALE", "TOO_LONG", "UNKNOWN_ID"),
        *("count_in", "decode_into", "encode_into"),
    ],
    "numbatok.pipelines": ["Fault", "InputError", "Report", "TokenFiles", "encode_files", "open_tokens"],
    "numbatok.pipelines.arrow": ["encode_record_batch"],
    "numbatok.pipelines.ray": ["encode"],
    "numbatok.compat.tiktoken": [
        *("Encoding", "__version__", "core", "encoding_for_model", "encoding_name_for_model", "get_encoding"),
        *("list_encoding_names", "load", "model", "registry"),
    ],
    "numbatok.compat.huggingface": [
        *("AddedToken", "EncodeInput", "Encoding", "InputSequence", "NumbatokTokenizer", "Offsets"),
        *("PreTokenizedEncodeInput", "PreTokenizedInputSequence", "TextEncodeInput", "TextInputSequence", "Tokenizer"),
        *("decoders", "from_transformers", "patch_transformers", "unpatch_transformers"),
    ],
}

#: Examples that are not run, by the beginning of their name, and why.
NOT_RUN = {
    "numbatok.Tokenizer.from_pretrained": "needs the network",
    "numbatok.Tokenizer.from_tiktoken": "has ranks of the reader's",
    "numbatok.Tokenizer.aencode_batch": "needs an event loop",
    "numbatok.pipelines.arrow:": "needs datasets, Spark and Dask",
    "numbatok.pipelines.ray": "needs a cluster's storage",
    "numbatok.compat.tiktoken.Encoding:": "has ranks of the reader's",
    "numbatok.compat.huggingface.from_transformers": "needs the network",
    "numbatok.compat.huggingface.patch_transformers": "needs the network",
}


def members(module: str) -> Iterator[tuple[str, Any]]:
    """Names and values of what is public in a module: its names, and what its own classes have without underscore."""
    home = importlib.import_module(module)
    for name in PUBLIC[module]:
        value = getattr(home, name)
        if inspect.ismodule(value) or name == "__version__" or isinstance(value, int):
            continue
        yield f"{module}.{name}", value
        if inspect.isclass(value):
            for member, inner in vars(value).items():
                is_field = not (callable(inner) or isinstance(inner, property | classmethod | staticmethod))
                if not member.startswith("_") and not is_field:
                    yield f"{module}.{name}.{member}", getattr(inner, "__func__", inner)


@pytest.mark.parametrize("module", PUBLIC)
def test_exports(module: str) -> None:
    """The list is that of ``__all__``, each name is there, and ``dir`` of the package shows nothing else."""
    home = importlib.import_module(module)
    assert home.__all__ == PUBLIC[module] == sorted(PUBLIC[module])
    assert all(hasattr(home, name) for name in home.__all__)
    if module == "numbatok":
        assert dir(home) == PUBLIC[module]


@pytest.mark.parametrize("module", PUBLIC)
def test_everything_is_documented(module: str) -> None:
    """Names and members say what they are; what is numbatok's own shows it by an example too."""
    assert (importlib.import_module(module).__doc__ or "").strip()
    for name, value in members(module):
        text = inspect.getdoc(value) or ""
        assert text, f"{name} has no docstring"
        if (module == "numbatok" and name.count(".") == 1) or module.startswith("numbatok.kernels"):
            assert ">>> " in text, f"{name} has no example"
        if name.startswith(("numbatok.Tokenizer.", "numbatok.TokenBatch.")) and not isinstance(value, property):
            assert ">>> " in text, f"{name} has no example"


class _Shown(doctest.OutputChecker):
    """Where an example shows no result it only has to run."""

    def check_output(self, want: str, got: str, optionflags: int) -> bool:
        return not want or super().check_output(want, got, optionflags)


def examples() -> list[str]:
    """Names of the docstrings with examples; a module's own ends with a colon."""
    found = []
    for module in PUBLIC:
        named = [(f"{module}:", importlib.import_module(module))] if module != "numbatok.kernels" else []
        for name, value in [*named, *members(module)]:
            if ">>> " in (inspect.getdoc(value) or ""):
                found.append(f"{name}:" if inspect.isclass(value) else name)
    return found


@pytest.fixture
def library_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A folder with what examples read, as the current one; what they set for the process is set back."""
    monkeypatch.chdir(tmp_path)
    numbatok.get_encoding("gpt2").save("tokenizer.json")
    Path("corpus").mkdir()
    Path("corpus/lines.txt").write_text("Hello world\nagain\n", encoding="utf-8")
    Path("corpus/lines.jsonl.gz").write_bytes(gzip.compress(b'{"text": "Hello world"}\n{"text": "again"}\n'))
    yield
    numbatok.set_num_threads(None)
    numbatok.set_cache_budget(None)


def names_for(example: str) -> dict[str, Any]:
    """What an example takes for granted, besides its module's names."""
    tok = numbatok.get_encoding("gpt2")
    names: dict[str, Any] = {"numbatok": numbatok, "np": np, "Path": Path, "tok": tok, "tokenizer": tok}
    if example.startswith("numbatok.compat.tiktoken"):
        names["tiktoken"] = importlib.import_module("numbatok.compat.tiktoken")
        names["encoding"] = names["tiktoken"].get_encoding("gpt2")
    elif example.startswith("numbatok.compat.huggingface"):
        hugging = importlib.import_module("numbatok.compat.huggingface")
        names.update(vars(hugging), tokenizer=hugging.Tokenizer.from_file("tokenizer.json"))
    elif example.startswith("numbatok.kernels"):
        names["numba"] = importlib.import_module("numba")
    if example.startswith("numbatok.TokenBatch"):
        names["batch"] = tok.encode_batch(["Hello world", "again"])
    if "from_huggingface" in example:
        names["tokenizers"] = pytest.importorskip("tokenizers")
    if "record_batch" in example:
        names["pyarrow"] = pytest.importorskip("pyarrow")
    if example.endswith("open_tokens"):
        numbatok.pipelines.encode_files(tok, "corpus", "tokens")
    return names


@pytest.mark.parametrize("name", examples())
def test_examples_of_docstrings(name: str, library_state: None) -> None:
    """They run in the order in which they stand, and give what they show."""
    for beginning, reason in NOT_RUN.items():
        if name.startswith(beginning):
            pytest.skip(reason)
    path = name.rstrip(":")
    module = max((module for module in PUBLIC if path == module or path.startswith(f"{module}.")), key=len)
    home = value = importlib.import_module(module)
    for part in path[len(module) :].split(".")[1:]:
        value = getattr(value, part)
    names = {public: getattr(home, public) for public in PUBLIC[module]} | names_for(name)
    test = doctest.DocTestParser().get_doctest(inspect.getdoc(value) or "", names, name, None, 0)
    report: list[str] = []
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    doctest.DocTestRunner(_Shown(), optionflags=flags).run(test, out=report.append)
    text = "".join(report)
    missing = re.search(r"ImportError: .*(pip install numbatok\[\w+\])", text)
    if missing:
        pytest.skip(f"needs {missing[1]}")
    assert not report, text


def test_reference(tmp_path: Path) -> None:
    """Of each public module pdoc makes a page, without a warning."""
    pytest.importorskip("pdoc")
    command = [sys.executable, str(BENCH / "reference.py"), str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE.parent), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, encoding="utf-8", timeout=300)
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "numbatok.html").read_text(encoding="utf-8")
    for name in (*PUBLIC["numbatok"], "Tokenizer.encode_batch", "TokenBatch.to_padded", "StreamEncoder.feed"):
        assert name == "__version__" or f'id="{name}"' in page, name
    assert not [mark for mark in (":func:`", ":meth:`", "<code>`") if mark in page]
