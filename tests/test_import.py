"""``import numbatok`` costs next to nothing: it brings neither NumPy nor Numba, starts no thread, and says nothing."""

import pytest

import numbatok
from support import output_of, run_python


def test_import_is_light() -> None:
    """No NumPy, no Numba, no other thread; the names are there all the same."""
    code = """
        import sys, threading
        import numbatok
        heavy = {name.partition(".")[0] for name in sys.modules} & {"numpy", "numba", "llvmlite", "tiktoken", "regex"}
        print(sorted(heavy), threading.active_count(), sorted(set(numbatok.__all__) - set(dir(numbatok))))
    """
    assert output_of(code).strip() == "[] 1 []"


def test_loading_imports_no_numba() -> None:
    """Numba is imported by the first call that encodes or decodes."""
    code = """
        import sys
        import numbatok
        tokenizer = numbatok.get_encoding("gpt2")
        tokenizer.token_to_id(" world"), tokenizer.vocab_size, repr(tokenizer), hash(tokenizer)
        print("numba" in sys.modules)
        tokenizer.encode("x")
        print("numba" in sys.modules)
    """
    assert output_of(code).split() == ["False", "True"]


def test_a_first_use_writes_nothing() -> None:
    """A library call speaks through logging only: nothing on either stream, with warnings as errors."""
    done = run_python("import numbatok; numbatok.get_encoding('gpt2').encode('x')", PYTHONWARNINGS="error")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_public_names() -> None:
    """Every public name can be had; another is an AttributeError that names it."""
    for name in numbatok.__all__:
        assert getattr(numbatok, name) is not None
        assert name in dir(numbatok)
    with pytest.raises(AttributeError, match="module 'numbatok' has no attribute 'Tokeniser'"):
        numbatok.Tokeniser  # noqa: B018
