"""What numbatok says unasked: at most one line for a compile that somebody waits for, one for an unwritable cache.

On the command line and in a notebook the line goes to standard error. In a library call the compile is a log record of
the logger ``numbatok``; the cache, which somebody should mend, is a warning, which scripts show that have set up no
logging. Each is said once a process.
"""

import logging
import sys
import warnings
from collections.abc import Callable

log = logging.getLogger("numbatok")
log.addHandler(logging.NullHandler())

#: Set by the command line: lines for people go to standard error instead of the log.
speak_to_terminal = False

#: What compiling takes, for people: 7 s for an encode with GPT-2, 25 s for all kernels, twice that on a busy machine.
COMPILE_TIME = "some seconds"
ALL_COMPILE_TIME = "half a minute or so"

_said: set[str] = set()


def _in_notebook() -> bool:
    """Whether this process is a Jupyter kernel."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell is not None and shell.__class__.__name__ == "ZMQInteractiveShell"


def _say_once(subject: str, message: str, otherwise: Callable[[str], None]) -> None:
    """A line for people, where there are any, and else what ``otherwise`` does with the message."""
    if subject in _said:
        return
    _said.add(subject)
    if speak_to_terminal or _in_notebook():
        if sys.stderr is not None:
            print(f"numbatok: {message}", file=sys.stderr, flush=True)
    else:
        otherwise(message)


def _warn(message: str) -> None:
    warnings.warn(message, RuntimeWarning, stacklevel=2)


def expect_compiling() -> None:
    """Say nothing of compiling: the caller does it on purpose, and tells about it."""
    _said.add("compiling")


def compiling() -> None:
    """A kernel was not in the cache: it is compiled now, and somebody waits."""
    _say_once(
        "compiling",
        f"compiling kernels that are used for the first time, {COMPILE_TIME} (numbatok warmup does it ahead)",
        log.info,
    )


def cache_not_writable(reason: str) -> None:
    """Compiled kernels could not be kept: every process compiles anew."""
    _say_once(
        "cache",
        f"compiled kernels cannot be kept, so each process compiles them again ({reason}); "
        "set NUMBA_CACHE_DIR to a writable directory",
        _warn,
    )
