"""What numbatok says unasked: at most one line for a compile that somebody waits for, one for an unwritable cache.

On the command line and in a notebook the line goes to standard error; in a library call it is a log record of the
logger ``numbatok``. Each is said once a process.
"""

import logging
import sys

log = logging.getLogger("numbatok")
log.addHandler(logging.NullHandler())

#: Set by the command line: lines for people go to standard error instead of the log.
speak_to_terminal = False

_said: set[str] = set()


def _in_notebook() -> bool:
    """Whether this process is a Jupyter kernel."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell is not None and shell.__class__.__name__ == "ZMQInteractiveShell"


def _say_once(subject: str, level: int, message: str) -> None:
    if subject in _said:
        return
    _said.add(subject)
    if speak_to_terminal or _in_notebook():
        print(f"numbatok: {message}", file=sys.stderr, flush=True)
    else:
        log.log(level, message)


def expect_compiling() -> None:
    """Say nothing of compiling: the caller does it on purpose, and tells about it."""
    _said.add("compiling")


def compiling() -> None:
    """A kernel was not in the cache: it is compiled now, and somebody waits."""
    _say_once(
        "compiling",
        logging.INFO,
        "compiling kernels for this machine, ten to twenty seconds, once (numbatok warmup does it ahead)",
    )


def cache_not_writable(reason: str) -> None:
    """Compiled kernels could not be kept: every process compiles anew."""
    _say_once(
        "cache",
        logging.WARNING,
        f"compiled kernels cannot be kept, so each process compiles them again ({reason}); "
        "set NUMBA_CACHE_DIR to a writable directory",
    )
