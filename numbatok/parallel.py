"""A parallel call: documents to tasks, tasks to workers by waves, and the workers' ids to one array.

Documents lie one after the other on a line of bytes. Cuts on the line, closer together towards the end of a wave so
that no worker idles there, make the *tasks*: groups of documents, and parts of those that are long. A part begins where
a walk from somewhat before finds a pretoken, and ends where the next part begins. That the scan of the document comes
by that place is not assumed: the worker on its left sees whether it does. If not, what was encoded on the right is
thrown away, and the scan from the left goes on. A scan looks at nothing before it, so scans that share a start share
the rest: whichever way, the ids are those of one scan.

Between waves Python looks whether it is interrupted, and what the workers have put out is copied to its place.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from numbatok.calls import AnyIds, Check, IdType
from numbatok.errors import DisallowedToken
from numbatok.kernels import cache, dtypes, encode, tasks, workers
from numbatok.kernels.jit import Kernel
from numbatok.memory import address_of, touch
from numbatok.scratch import CACHE_FULL, Moves, Scratch, move_arguments

WAVE_BYTES = 1 << 21  # of a wave, for each worker: 10 ms, and what it puts out stays in caches
PARALLEL_BYTES = 3 << 17  # a call of fewer bytes is left to its thread alone
WARM_UP = 1 << 12  # bytes before a guess where a walk begins: by then it has nearly always met the scan of the text
LEAST_TASK = 1 << 14  # bytes: a task costs a fraction of a microsecond, 16 KiB some fifty
GUIDE = 3  # a task takes a third of its worker's share of what is left of a wave


def longest_whole(total: int, threads: int) -> int:
    """Bytes up to which a document is one task: what one worker can hold while the others are done is little."""
    return max(4 * LEAST_TASK, min(total // (8 * threads), WAVE_BYTES // 4))


def threads_for(total: int, threads: int) -> int:
    """How many of so many threads a call over ``total`` bytes should use: 1 below PARALLEL_BYTES."""
    return 1 if total < PARALLEL_BYTES else min(threads, total // LEAST_TASK)


def plan(
    lengths: npt.NDArray[np.int64], tries_off: npt.NDArray[np.int64], threads: int, longest: int, total: int
) -> tuple[npt.NDArray[np.int64], list[int]]:
    """(tasks, shares) for documents of so many bytes: int64[tasks, TASK_FIELDS], and where each worker's begin and end.

    A wave has a share for each worker. Documents of more than ``longest`` bytes are cut into parts, which begin at
    guesses. ``tries_off`` has one element for each document or one for all, and ``total`` is about how many bytes all
    documents have together.
    """
    line = total + tasks.DOCUMENT_COST * len(lengths)
    count = max(1, -(-line // (WAVE_BYTES * threads))) * threads
    shares = np.zeros(count + 1, np.int64)
    sizes = longest, LEAST_TASK, GUIDE, -(-line // count)
    capacity = 64 + 2 * line // LEAST_TASK
    while True:
        rows = np.empty((capacity, dtypes.TASK_FIELDS), np.int64)
        places = address_of(lengths), len(lengths), address_of(tries_off), len(tries_off)
        made = tasks.plan_tasks(*places, *sizes, address_of(rows), capacity, address_of(shares), len(shares))
        if made >= 0:
            return rows[:made], shares.tolist()
        capacity = -made


def _shares(ends: Sequence[int]) -> npt.NDArray[np.int64]:
    """int64[len(ends), SHARE_FIELDS]: shares that follow each other up to these places of the order."""
    shares = np.zeros((len(ends), dtypes.SHARE_FIELDS), np.int64)
    shares[1:, dtypes.SHARE_NEXT] = ends[:-1]
    shares[:, dtypes.SHARE_END] = ends
    return shares


def call_rows(callee: Kernel, rows: npt.NDArray[np.int64], threads: int) -> None:
    """Call a kernel once for each row of int64[rows, CALL_FIELDS]: arguments first, and last its result.

    The kernel takes 2, 4, 5 or 12 arguments; see :func:`workers.call_rows`.
    """
    order, shares = np.arange(len(rows), dtype=np.int64), _shares([len(rows)])
    record = np.zeros(dtypes.JOB_FIELDS, np.int64)
    record[dtypes.JOB_TASKS] = address_of(rows)
    record[dtypes.JOB_ORDER : dtypes.JOB_ORDER + 2] = address_of(order), len(order)
    record[dtypes.JOB_SHARES : dtypes.JOB_SHARES + 2] = address_of(shares), shares.size
    record[dtypes.JOB_CALLEE] = callee.address
    record[dtypes.JOB_ARGUMENTS] = callee.signature.count("int64") - 1
    workers.run_workers(workers.call_rows.address, address_of(record), threads)


def move(moves: Moves, threads: int) -> None:
    """Let threads move the entries of tables that have grown."""
    if moves:
        arguments = move_arguments(moves)
        rows = np.zeros((len(arguments), dtypes.CALL_FIELDS), np.int64)
        rows[:, : len(arguments[0])] = arguments
        call_rows(cache.move_entries, rows, min(threads, len(rows)))


class ParallelCall:
    """Workers with a scratch each, the record that they share, and the documents of one call.

    Parameters
    ----------
    scratches : one for each worker, with the call's actions set
    addresses, lengths : int64, as ``encode_documents`` takes them
    tries_off : int64, for each document what ``WORK_TRIES_OFF`` is while it is encoded, or one for all
    longest : bytes of a document above which it is cut into parts, for workers to share
    total : about how many bytes the documents have together
    check : called between waves; it raises what is to end the call
    """

    def __init__(
        self,
        scratches: Sequence[Scratch],
        addresses: npt.NDArray[np.int64],
        lengths: npt.NDArray[np.int64],
        tries_off: npt.NDArray[np.int64],
        longest: int,
        total: int,
        check: Check = None,
    ) -> None:
        self._scratches = scratches
        self._check = check
        self._record = np.zeros(dtypes.JOB_FIELDS, np.int64)
        self._kept: dict[int, npt.NDArray[np.generic]] = {}
        self.ends = np.zeros(len(addresses), np.int64)
        self._lengths = lengths
        self._set(dtypes.JOB_SCRATCHES, np.array([scratch.address for scratch in scratches], np.int64))
        self._set(dtypes.JOB_ADDRESSES, addresses)
        self._set(dtypes.JOB_LENGTHS, lengths)
        self._set(dtypes.JOB_ENDS, self.ends)
        for scratch in scratches:
            scratch.record[dtypes.WORK_STOP] = address_of(self._record) + 8 * dtypes.JOB_STOP
        rows, self._shares = plan(lengths, tries_off, len(scratches), longest, total)
        self._find_seams(rows)

    def _set(self, field: int, array: npt.NDArray[np.generic]) -> None:
        self._kept[field] = array
        self._record[field] = address_of(array)
        self._record[field + 1] = array.size

    def _use(self, rows: npt.NDArray[np.int64]) -> None:
        self._tasks, self._tasks_address = rows, address_of(rows)
        self._set(dtypes.JOB_TASKS, rows)

    def _run(
        self,
        job: Kernel,
        numbers: npt.NDArray[np.int64],
        ends: Sequence[int] = (),
        part: tuple[int, int] = (1, 1),
    ) -> None:
        """Let the workers do a job for tasks; what they need meanwhile is met, and they are sent on.

        ``ends`` is where each worker's share of the tasks ends, if they have shares; ``part`` is how many bytes of the
        call's are behind, and how many they are.
        """
        record = self._record
        behind, total = part
        shares = _shares(ends or [len(numbers)])
        self._set(dtypes.JOB_ORDER, numbers)
        self._set(dtypes.JOB_SHARES, shares)
        wanted = min(len(self._scratches), max(len(numbers), 1))
        while True:
            record[dtypes.JOB_STOP] = 0
            workers.run_workers(job.address, address_of(record), wanted)
            if record[dtypes.JOB_STOP] == 0:
                return
            behind += sum(scratch.bytes_passed() for scratch in self._scratches)
            done = min(behind / total, 1.0)
            statuses = [int(scratch.record[dtypes.WORK_STATUS]) for scratch in self._scratches]
            moves: Moves = {}
            for scratch, status in zip(self._scratches, statuses, strict=True):
                if status < 0:
                    scratch.record[dtypes.WORK_STATUS] = 0
                    scratch.mend(status, done, moves)
            if not CACHE_FULL.keys().isdisjoint(statuses):  # the others will be soon, and now all have stopped anyway
                for scratch in self._scratches:
                    scratch.make_room(done, moves)
            move(moves, wanted)
            if self._check:
                self._check()

    def _find_seams(self, rows: npt.NDArray[np.int64]) -> None:
        """Use these tasks, with parts that begin where a pretoken begins, and end where the next one begins."""
        self._use(rows)
        parts = np.flatnonzero(rows[:, dtypes.TASK_BEGIN] >= 0)
        if len(parts) == 0:
            return
        self._record[dtypes.JOB_WARM_UP] = WARM_UP
        self._run(workers.find_seams, parts)
        shares = np.array(self._shares, np.int64)
        count = tasks.join_parts(address_of(rows), len(rows), address_of(shares), len(shares))
        self._shares = shares.tolist()
        self._use(rows[:count])

    def _in_shares(self, first: int, last: int) -> tuple[npt.NDArray[np.int64], list[int]]:
        """(a wave's tasks by workers, where each one's end), each one's larger ones first."""
        numbers, sizes = np.empty(last - first, np.int64), np.empty(tasks.SIZES, np.int64)
        order, ends = address_of(numbers), [0]
        begin = first
        for end in (*(place for place in self._shares if first < place < last), last):
            arguments = self._tasks_address, begin, end, order + 8 * ends[-1], address_of(sizes)
            ends.append(ends[-1] + tasks.order_tasks(*arguments))
            begin = end
        return numbers[: ends[-1]], ends[1:]

    def _repair(self, job: Kernel, first: int, last: int) -> int:
        """Where a part's scan does not come by the beginning of the next, go on with it, over parts done in vain.

        The parts that one step takes over double in number, so that a run without any cut is read at most twice more.
        Returns the end of the wave, which may come to be further on.
        """
        rows = self._tasks
        number = first
        size = 1
        while (missed := tasks.next_missed(self._tasks_address, number, last)) < last:
            if missed > number:
                number, size = missed, 1
            following = number + 1
            rows[following, dtypes.TASK_BEGIN] = rows[number, dtypes.TASK_REACHED]
            if following == last and size == 1:  # it is the first of the next wave, and not yet done
                break
            end = following + 1
            while end < following + size and rows[end - 1, dtypes.TASK_UNTIL] != dtypes.NO_UNTIL:
                end += 1
            rows[following, dtypes.TASK_UNTIL] = rows[end - 1, dtypes.TASK_UNTIL]
            rows[following + 1 : end, [dtypes.TASK_COUNT, dtypes.TASK_IDS, dtypes.TASK_STATUS]] = 0
            self._run(job, np.array([following], np.int64))
            last = max(last, end)
            if rows[following, dtypes.TASK_STATUS] != dtypes.MISSED:
                number, size = end, 1
                continue
            # Its row is the last of those that it takes over, so that the next one follows it.
            if end > following + 1:
                rows[end - 1] = rows[following]
                rows[following, [dtypes.TASK_COUNT, dtypes.TASK_IDS, dtypes.TASK_STATUS]] = 0
            number, size = end - 1, 2 * size
        self._shares = [place if place <= first else max(place, last) for place in self._shares]
        return last

    def _place(self, first: int, last: int, before: int) -> int:
        """How many ids there are with those of a wave, which are told their places; DisallowedToken if one is met."""
        total = tasks.place_tasks(self._tasks_address, first, last, before)
        if total < 0:
            task = self._tasks[-1 - total].tolist()
            raise DisallowedToken(task[dtypes.TASK_DOCUMENT], task[dtypes.TASK_REACHED], task[dtypes.TASK_TOKEN])
        return int(total)

    def encode(self, id_type: IdType, out: AnyIds | None = None, *, count_only: bool = False) -> tuple[AnyIds, int]:
        """(ids, how many) of the documents, into ``out`` if it is given; their ends are in ``self.ends``.

        Where ``out`` has not room for all it holds any ids afterwards. Of ``count_only`` no ids are kept.
        """
        output = np.empty(0, id_type) if out is None else out
        total = 0
        done_bytes, all_bytes = 0, tasks.bytes_of(self._tasks_address, 0, len(self._tasks))
        for first, last in self._each_wave():
            wave_bytes = tasks.bytes_of(self._tasks_address, first, last)
            for scratch in self._scratches:
                scratch.begin_wave(wave_bytes // (2 * len(self._scratches)), count_only)
            self._run(workers.encode_tasks, *self._in_shares(first, last), (done_bytes, all_bytes))
            last = self._repair(workers.encode_tasks, first, last)
            before, total = total, self._place(first, last, total)
            done_bytes += wave_bytes
            if out is None and not count_only and total > len(output):
                # A tenth more than the rest will take if it is as what is done.
                grown = np.empty(total + int(1.1 * total * (all_bytes - done_bytes) / done_bytes), id_type)
                grown[:before] = output[:before]
                touch(grown[before:])
                output = grown
            self._set(dtypes.JOB_OUTPUT, output)
            self._record[dtypes.JOB_ITEM_BYTES] = 0 if count_only else output.itemsize
            inside = [place - first for place in self._shares if first < place < last]
            self._run(workers.gather_tasks, np.arange(first, last, dtype=np.int64), [*inside, last - first])
        if out is None and len(output) > total:
            output.resize(total, refcheck=False)  # gives the rest back; nobody else has seen the array
        return output, total

    def _each_wave(self) -> Iterator[tuple[int, int]]:
        """The numbers of the first task of each wave and of the first after it."""
        step = len(self._scratches)
        for place in range(0, len(self._shares) - 1, step):
            if self._check:
                self._check()
            if self._shares[place] < self._shares[place + step]:  # a wave may come to take over some of the next
                yield self._shares[place], self._shares[place + step]

    def split(self) -> npt.NDArray[np.int64]:
        """Byte offsets where the pretokens of the one document begin, and its end."""
        length = int(self._lengths[0])
        room = np.empty(length, np.int64)
        self._set(dtypes.JOB_STARTS, room)
        self._record[dtypes.JOB_CALLEE] = encode.split_text.address
        for first, last in self._each_wave():
            self._run(workers.split_tasks, *self._in_shares(first, last))
            self._repair(workers.split_tasks, first, last)
        rows = self._tasks[self._tasks[:, dtypes.TASK_COUNT] > 0]
        begins = np.maximum(rows[:, dtypes.TASK_BEGIN], 0)
        spans = zip(begins.tolist(), (begins + rows[:, dtypes.TASK_IDS]).tolist(), strict=True)
        return np.concatenate([*(room[begin:end] for begin, end in spans), [length]])
