"""What tests need besides texts and oracles: processes of their own, and kernels called by their contracts."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np

import numbatok
from numbatok.engine import Engine
from numbatok.kernels import dtypes
from numbatok.memory import address_of
from numbatok.scratch import Scratch

TESTS = Path(__file__).resolve().parent
PACKAGE = Path(numbatok.__file__).resolve().parent


def run_python(
    code: str, *arguments: str, package_root: Path | None = None, **environment: str | None
) -> subprocess.CompletedProcess[str]:
    """Run ``code`` in a fresh interpreter that can import numbatok and these modules; the caller looks at the result.

    ``environment`` adds variables, or removes those that are None; ``package_root`` takes numbatok from elsewhere.
    """
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join([str(package_root or PACKAGE.parent), str(TESTS)])}
    variables["PYTHONDONTWRITEBYTECODE"] = "1"
    variables["PYTHONUTF8"] = "1"
    for name, value in environment.items():
        if value is None:
            variables.pop(name, None)
        else:
            variables[name] = value
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), *arguments],
        env=variables,
        cwd=TESTS,  # not the checkout, whose numbatok would come before all others
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=300,
    )


def output_of(code: str, *arguments: str, **options: Any) -> str:
    """Standard output of :func:`run_python`; its standard error is the message where it failed or was killed."""
    done = run_python(code, *arguments, **options)
    assert done.returncode == 0, f"exit status {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def engine_of(tokenizer: numbatok.Tokenizer) -> Engine:
    """The compiled side of a tokenizer."""
    return tokenizer._start()


def new_scratch(tokenizer: numbatok.Tokenizer) -> Scratch:
    """A scratch that no call of the tokenizer uses, to call its kernels with."""
    scratch = Scratch(engine_of(tokenizer)._view.record)
    scratch.set_actions(engine_of(tokenizer).everything_allowed)
    return scratch


def keep_tail(scratch: Scratch, text: np.ndarray) -> None:
    """Lay the text's last bytes and zeros into WORK_TAIL, as walkers and keyers want them."""
    tail = np.zeros(dtypes.TAIL_BYTES, np.uint8)
    kept = min(len(text), dtypes.TAIL_KEPT)
    tail[:kept] = text[len(text) - kept :]
    scratch.set_table(dtypes.WORK_TAIL, tail)


def array_of(content: bytes) -> np.ndarray:
    """Bytes as a writable array of their own."""
    return np.frombuffer(bytearray(content), np.uint8)


__all__ = [
    "PACKAGE",
    "TESTS",
    "address_of",
    "array_of",
    "engine_of",
    "keep_tail",
    "new_scratch",
    "output_of",
    "run_python",
]
