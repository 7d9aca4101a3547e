"""How many threads a call may use, and the guard that lets one parallel call at a time into Numba's threads."""

import functools
import operator
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_VARIABLE = "NUMBATOK_NUM_THREADS"

_chosen: int | None = None  # by set_num_threads
_guard = threading.Lock()
_is_forked = False
_forked_from_threads = False  # whether Numba's threads, of which a fork keeps none, had been started before it


def check_threads(number: object, what: str) -> int:
    """``number`` as the count of threads that ``what`` gives; TypeError or ValueError unless it is one."""
    try:
        count = operator.index(number)  # type: ignore[arg-type]
    except TypeError:
        count = None
    if count is None or isinstance(number, bool):
        raise TypeError(f"{what} must be an int of at least 1, not {type(number).__name__}")
    if count < 1:
        raise ValueError(f"{what} must be at least 1, not {count}")
    return count


def set_num_threads(number: int | None) -> None:
    """Let calls of this process use at most so many threads, where they do not say themselves; None for the default.

    The default is ``NUMBATOK_NUM_THREADS`` if it is set, and else the number of physical cores that the process may
    use; but 1 in workers of ``multiprocessing`` and other forked processes, of which there are as many already.

    >>> numbatok.set_num_threads(2)
    >>> numbatok.get_num_threads()
    2
    """
    global _chosen
    _chosen = None if number is None else check_threads(number, "number")


def get_num_threads() -> int:
    """How many threads a call may use that does not say: see :func:`set_num_threads`.

    >>> number = numbatok.get_num_threads()
    """
    if _chosen is not None:
        return _chosen
    text = os.environ.get(_VARIABLE, "")
    if text:
        if not text.strip().isdecimal() or int(text) < 1:
            raise ValueError(f"the environment variable {_VARIABLE} must be an integer of at least 1, not {text!r}")
        return int(text)
    return 1 if _in_worker() else usable_cores()


def threads_of(argument: int | None) -> int:
    """The number of threads for a call with this ``num_threads=``."""
    return get_num_threads() if argument is None else check_threads(argument, "num_threads")


def _in_worker() -> bool:
    """Whether this process is one of several that another has started for their work."""
    if _is_forked:
        return True
    processes = sys.modules.get("multiprocessing.process")
    return processes is not None and processes.parent_process() is not None


@functools.cache
def usable_cores() -> int:
    """Physical cores within the process's affinity mask and its control group's quota; at least 1.

    Two threads on one core share its caches and its ports: more workers than cores lose throughput.
    """
    if not hasattr(os, "sched_getaffinity"):
        return os.cpu_count() or 1
    allowed = os.sched_getaffinity(0)
    cores = {_siblings(number) for number in allowed}
    return max(1, min(len(cores), _quota()))


def _siblings(number: int) -> str:
    """What tells the physical core of a logical one from others."""
    try:
        return Path(f"/sys/devices/system/cpu/cpu{number}/topology/thread_siblings_list").read_text().strip()
    except OSError:
        return str(number)


def _quota() -> int:
    """Whole cores that the control groups grant, rounded up; many where they grant all."""
    most = os.cpu_count() or 1
    for group in _groups():
        try:
            if (group / "cpu.max").exists():
                quota, period = (group / "cpu.max").read_text().split()
            else:
                quota = (group / "cpu.cfs_quota_us").read_text().strip()
                period = (group / "cpu.cfs_period_us").read_text().strip()
            if quota not in ("max", "-1"):
                most = min(most, -(-int(quota) // int(period)))
        except (OSError, ValueError):
            continue
    return most


def _groups() -> Iterator[Path]:
    """Directories of this process's control groups, of version 2 and of version 1's controller of processors."""
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and "cpu" not in controllers.split(","):
            continue
        root = Path("/sys/fs/cgroup") if not controllers else Path("/sys/fs/cgroup") / controllers
        group = root / path.lstrip("/")
        yield from (group, *group.parents[: len(Path(path).parts)])


@contextmanager
def parallel_region(wanted: int) -> Iterator[int]:
    """How many of Numba's threads the caller may use meanwhile: 1 where another caller uses them.

    One caller at a time, whatever layer Numba runs on: its ``workqueue`` aborts the process when two enter. Whoever
    comes second is served sooner by going on alone than by waiting. After a fork from a process whose threads were
    running nothing parallel is tried: they are gone, and GNU's OpenMP ends the process that asks for them.
    """
    if wanted < 2 or _forked_from_threads or not _guard.acquire(blocking=False):
        yield 1
        return
    try:
        import numba
        from numba.core import config

        if not _threads_started():
            _start_threads()
        before = numba.get_num_threads()
        most: int = vars(config)["NUMBA_NUM_THREADS"]  # made from the environment, out of a type checker's sight
        if before == min(wanted, most):  # as nearly always: to set it takes 10 us each time
            yield wanted
            return
        numba.set_num_threads(min(wanted, most))
        try:
            yield wanted
        finally:
            numba.set_num_threads(before)
    finally:
        _guard.release()


def _start_threads() -> None:
    """Let Numba start its threads; GNU's OpenMP, where it is this that loads it, is told to spin for less long.

    A thread that waits for another spins for 10 ms otherwise, if nobody says anything else. Where the other has no core
    to run on, as the spinning one has taken it, each of a call's waits costs a time slice: 40 ms for a text of 0.4 MB
    on a busy machine, and 0.6 on a quiet one. With 0.1 ms it is 1.1 and 0.6.
    """
    import numba

    variables = ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")
    if any(name in os.environ for name in variables):
        numba.get_num_threads()
        return
    os.environ["GOMP_SPINCOUNT"] = "2000"
    try:
        numba.get_num_threads()
    finally:
        del os.environ["GOMP_SPINCOUNT"]


def _threads_started() -> bool:
    """Whether Numba has started its threads."""
    numba = sys.modules.get("numba")
    if numba is None:
        return False
    try:
        numba.threading_layer()
    except (AttributeError, ValueError):  # it is being imported, or has started none
        return False
    return True


def _after_fork() -> None:
    global _guard, _is_forked, _forked_from_threads
    _guard = threading.Lock()
    _is_forked = True
    usable_cores.cache_clear()
    _forked_from_threads = _forked_from_threads or _threads_started()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
