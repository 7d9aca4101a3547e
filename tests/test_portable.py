"""The kernels on a plain processor, and with every index checked: the stage tests pass there as well.

Each run is a process with a kernel cache of its own, since what it compiles is of no use to others.
"""

import subprocess
import sys
from pathlib import Path

import pytest

from support import TESTS

STAGES = ["test_starts.py", "test_spans.py", "test_cache.py", "test_merge.py", "test_text.py", "test_decode.py"]
#: Those that take long, test no kernel, or make processes of their own.
LEFT_OUT = (
    "not gpt2 and not nothing_outside and not chunk_edges and not far_longer and not surrogates and not every_width"
)


@pytest.mark.slow
@pytest.mark.parametrize(
    "setting", [{"NUMBA_CPU_NAME": "generic"}, {"NUMBA_BOUNDSCHECK": "1"}], ids=["generic processor", "bounds checked"]
)
def test_stages(setting: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """LLVM finds an equivalent for every vector instruction; no kernel reads or writes outside its tables."""
    for name, value in {**setting, "NUMBA_CACHE_DIR": str(tmp_path / "cache")}.items():
        monkeypatch.setenv(name, value)
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-k", LEFT_OUT]
    command += [str(TESTS / name) for name in STAGES]
    done = subprocess.run(command, cwd=TESTS.parent, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
    assert " passed" in done.stdout
