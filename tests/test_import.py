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


def test_a_name_that_is_not_there() -> None:
    """An AttributeError that names it, though names are looked up when they are used."""
    with pytest.raises(AttributeError, match="module 'numbatok' has no attribute 'Tokeniser'"):
        numbatok.Tokeniser  # noqa: B018


INTERRUPTED = """
    import importlib.abc, signal, sys
    import numbatok

    signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it
    tokenizer = numbatok.get_encoding("gpt2")

    class Interrupting(importlib.abc.MetaPathFinder):
        def find_spec(self, name, path, target=None):
            if name == sys.argv[1]:
                signal.raise_signal(signal.SIGINT)

    sys.meta_path.insert(0, Interrupting())
    try:
        tokenizer.encode("Hello world")
    except KeyboardInterrupt:
        print("interrupted")
    print(tokenizer.encode("Hello world").tolist(), signal.getsignal(signal.SIGINT) is signal.default_int_handler)
"""


@pytest.mark.parametrize("amid", ["numba.core.types", "numba.typed", "numbatok.engine", "numba.cpython.builtins"])
def test_ctrl_c_amid_a_first_use(amid: str) -> None:
    """It breaks the call off, and another call works."""
    assert output_of(INTERRUPTED, amid).splitlines() == ["interrupted", "[15496, 995] True"]
