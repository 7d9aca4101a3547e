"""The command line: ``numbatok encode``, ``decode``, ``count``, ``show`` and ``warmup``.

Results go to standard output, everything else to standard error. Exit codes: 0 for success, 1 for a file or an id that
cannot be used (one line says which and why), 2 for a wrong command or environment, 130 after Ctrl-C, 141 where the
reader of the output has gone. NumPy and Numba are imported by the commands that need them, so that ``--help`` is there
at once.
"""

import atexit
import gc
import sys
from collections.abc import Sequence
from typing import Any

from numbatok import notices
from numbatok.cli.messages import FAILED, Failure, reason, say
from numbatok.cli.outputs import discard_output, flush, whole_writes
from numbatok.cli.parser import make_parser
from numbatok.displays.escapes import printable
from numbatok.threads import get_num_threads

MISUSED, INTERRUPTED, READER_GONE = 2, 130, 141

BEGIN = """\
numbatok turns text into the token ids of GPT-2 and back, exactly and fast. To begin:

  numbatok count *.txt                         how many tokens each file has
  numbatok encode notes.txt -o notes.npy       token ids, for numpy.load
  echo "Hello tokenizer" | numbatok show       where a text is cut, and into which tokens

numbatok --help lists all commands, numbatok COMMAND --help what each takes.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command (by default that of the process) and return its exit code."""
    notices.speak_to_terminal = True
    atexit.register(gc.freeze)  # Python would take Numba's objects apart at the end: 0.3 s of a process's 1.1
    with whole_writes():
        return _answered(list(sys.argv[1:] if argv is None else argv))


def _answered(arguments: list[str]) -> int:
    """Run one command, and turn what ends it early into an exit code."""
    try:
        try:
            code = _run(arguments)
            flush()  # here, where a reader that has gone, or a full disk, can still be answered
        except Failure as failure:
            flush()
            say(str(failure))
            code = FAILED
        return code
    except BrokenPipeError:
        code = READER_GONE
    except KeyboardInterrupt:
        code = INTERRUPTED
    except OSError as error:  # those of named files are Failures by now
        say(f"standard output: {reason(error)}")
        code = FAILED
    discard_output()
    return code


def _run(arguments: list[str]) -> int:
    if not arguments:
        sys.stdout.write(BEGIN)
        return 0
    try:
        args = make_parser().parse_args(arguments)
    except SystemExit as stop:  # --help, --version or a wrong command: argparse has said it
        return stop.code if isinstance(stop.code, int) else FAILED
    try:
        get_num_threads()
    except ValueError as error:  # the environment's, which is no fault of any file
        say(printable(str(error)))
        return MISUSED
    command: Any = args.command
    code: int = command(args)
    return code
