"""Workers: the jobs of a parallel call, and the one kernel that starts them.

A *job* is a kernel ``job(shared, worker)`` that takes numbers of tasks, one after the other, from what the workers
share: a record with the fields ``JOB_...``, among them the *tasks*, rows of fields ``TASK_...``. Nothing else is
shared: each worker has a scratch of its own, with its cache and its output. So tasks may be done by anyone in any
order, and the ids are the same.
"""

import numpy as np
from numba import prange

from numbatok.kernels.dtypes import (
    AT_BEGINNING,
    CALL_FIELDS,
    CALL_RESULT,
    CHUNK_BLOCKS,
    DISALLOWED,
    JOB_ADDRESSES,
    JOB_ARGUMENTS,
    JOB_CALLEE,
    JOB_ENDS,
    JOB_ITEM_BYTES,
    JOB_LENGTHS,
    JOB_ORDER,
    JOB_OUTPUT,
    JOB_SCRATCHES,
    JOB_SHARES,
    JOB_STARTS,
    JOB_STOP,
    JOB_TASKS,
    JOB_WARM_UP,
    MISSED,
    NO_SEAM,
    NO_UNTIL,
    SHARE_END,
    SHARE_FIELDS,
    SHARE_NEXT,
    TASK_BEGIN,
    TASK_COUNT,
    TASK_DOCUMENT,
    TASK_FIELDS,
    TASK_FIRST,
    TASK_FLAT,
    TASK_IDS,
    TASK_PLACE,
    TASK_REACHED,
    TASK_STATUS,
    TASK_TOKEN,
    TASK_TRIES_OFF,
    TASK_UNTIL,
    TASK_WORKER,
    VIEW_COARSE,
    VIEW_ENCODER,
    VIEW_WALKER,
    WORK_COARSE,
    WORK_DOCUMENT,
    WORK_NEEDED,
    WORK_OUTPUT,
    WORK_OUTPUT_USED,
    WORK_POSITION,
    WORK_STARTS,
    WORK_STATUS,
    WORK_TASK,
    WORK_TRIES_OFF,
    WORK_UNTIL,
    WORK_VIEW,
)
from numbatok.kernels.encode import begin_at, copy_ids
from numbatok.kernels.intrinsics import array_at, at, call_kernel, field, put, set_field, table, take_number
from numbatok.kernels.intrinsics_vector import finish_streams, stream_32_bytes
from numbatok.kernels.jit import helper, kernel
from numbatok.kernels.starts import is_set, keep_tail

STREAMED_BYTES = 1 << 22  # an array of ids from this size on is written past the caches


@kernel("int64(int64, int64, int64)", parallel=True)
def run_workers(job, shared, workers):
    """Run ``job(shared, worker)`` for each of so many workers at once; ``job`` is the address of a kernel."""
    for worker in prange(workers):
        call_kernel(job, (shared, np.int64(worker)))
    return np.int64(0)


@helper
def _take_task(shared, worker):
    """The number of the next task, or -1 where none is left, or none is to be taken.

    A worker begins with its own share, so that it meets in the next call what it has cached in this one, if that is
    about the same texts; then it helps with the others'.
    """
    order = table(shared, JOB_ORDER, np.int64)
    shares = field(shared, JOB_SHARES + 1) // SHARE_FIELDS
    for step in range(shares):
        which = (worker + step) % shares
        share = field(shared, JOB_SHARES) + 8 * SHARE_FIELDS * which
        if field(shared, JOB_STOP) != 0:
            return np.int64(-1)
        if field(share, SHARE_NEXT) < field(share, SHARE_END):
            place = take_number(share, SHARE_NEXT)
            if place < field(share, SHARE_END):
                return np.int64(at(order, place))
    return np.int64(-1)


@helper
def _task_at(shared, number):
    """The address of a task's fields."""
    return field(shared, JOB_TASKS) + 8 * TASK_FIELDS * number


@kernel("int64(int64, int64)")
def find_seams(shared, worker):
    """Replace the guess in each part's ``TASK_BEGIN`` by a place where a walk from before it has a pretoken begin.

    The scan of the text will come by that place nearly always, as scans that share one start share all from there on;
    :func:`encode_tasks` finds out whether it does. Added tokens are not looked for here: soon after one a walk that did
    not see it goes on alike again. NO_SEAM where no pretoken begins soon after the guess.
    """
    work = np.int64(at(table(shared, JOB_SCRATCHES, np.int64), worker))
    view = field(work, WORK_VIEW)
    starts = table(work, WORK_STARTS, np.uint64)
    while True:
        number = _take_task(shared, worker)
        if number < 0:
            return np.int64(0)
        task = _task_at(shared, number)
        document = field(task, TASK_FIRST)
        text = np.int64(at(table(shared, JOB_ADDRESSES, np.int64), document))
        length = np.int64(at(table(shared, JOB_LENGTHS, np.int64), document))
        source = array_at(text, length, np.uint8)
        guess = field(task, TASK_BEGIN)
        if guess == 0:
            continue
        keep_tail(work, text, length)
        base = max(guess - field(shared, JOB_WARM_UP), 0)
        while base < length - 1 and at(source, base) & 0xC0 == 0x80:
            base += 1
        blocks = min((length - base + 63) >> 6, CHUNK_BLOCKS)
        set_field(work, WORK_COARSE, field(view, VIEW_COARSE))
        decided = call_kernel(field(view, VIEW_WALKER), (view, work, text, length, base, length, blocks))
        set_field(work, WORK_COARSE, 0)
        end = min(decided, base + 64 * blocks)
        place = max(guess, base)
        while place < end and not (is_set(starts, place - base) and at(source, place) & 0xC0 != 0x80):
            place += 1
        set_field(task, TASK_BEGIN, place if place < end else np.int64(NO_SEAM))


@kernel("int64(int64, int64)")
def encode_tasks(shared, worker):
    """Encode the documents of tasks, or parts of a document, one after the other into the worker's output.

    A worker that needs something leaves its status in ``WORK_STATUS`` and its task in ``WORK_TASK``, and stops the
    others after their tasks; when its needs are met all are run again, and it goes on where it stood.
    """
    work = np.int64(at(table(shared, JOB_SCRATCHES, np.int64), worker))
    addresses = field(shared, JOB_ADDRESSES)
    lengths = field(shared, JOB_LENGTHS)
    ends = field(shared, JOB_ENDS)
    encoder = field(field(work, WORK_VIEW), VIEW_ENCODER)
    number = field(work, WORK_TASK)
    while True:
        if number < 0:
            number = _take_task(shared, worker)
            if number < 0:
                return np.int64(0)
            task = _task_at(shared, number)
            begin = field(task, TASK_BEGIN)
            set_field(work, WORK_TASK, number)
            set_field(work, WORK_DOCUMENT, 0)
            set_field(work, WORK_POSITION, begin)
            if begin != AT_BEGINNING:
                begin_at(work, begin)
            set_field(work, WORK_UNTIL, field(task, TASK_UNTIL))
            set_field(work, WORK_TRIES_OFF, field(task, TASK_TRIES_OFF))
            set_field(task, TASK_WORKER, worker)
            set_field(task, TASK_PLACE, field(work, WORK_OUTPUT_USED))
        task = _task_at(shared, number)
        skipped = 8 * field(task, TASK_FIRST)
        result = call_kernel(
            encoder, (work, addresses + skipped, lengths + skipped, ends + skipped, field(task, TASK_COUNT))
        )
        if result >= 0:
            set_field(work, WORK_OUTPUT_USED, result)
            result = np.int64(0)
        elif result != MISSED and result != DISALLOWED:
            set_field(work, WORK_STATUS, result)
            set_field(shared, JOB_STOP, 1)
            return result
        set_field(task, TASK_STATUS, result)
        set_field(task, TASK_REACHED, field(work, WORK_POSITION))
        set_field(task, TASK_DOCUMENT, field(task, TASK_FIRST) + field(work, WORK_DOCUMENT))
        set_field(task, TASK_TOKEN, field(work, WORK_NEEDED))
        set_field(task, TASK_IDS, field(work, WORK_OUTPUT_USED) - field(task, TASK_PLACE))
        number = np.int64(-1)
        set_field(work, WORK_TASK, number)


@kernel("int64(int64, int64)")
def split_tasks(shared, worker):
    """Write where the pretokens of parts of the first document begin, to ``JOB_STARTS`` from each part's byte on.

    ``JOB_CALLEE`` is ``split_text``. A worker that needs something stops as in :func:`encode_tasks`, and begins its
    task anew.
    """
    work = np.int64(at(table(shared, JOB_SCRATCHES, np.int64), worker))
    text = np.int64(at(table(shared, JOB_ADDRESSES, np.int64), 0))
    length = np.int64(at(table(shared, JOB_LENGTHS, np.int64), 0))
    number = field(work, WORK_TASK)
    while True:
        if number < 0:
            number = _take_task(shared, worker)
            if number < 0:
                return np.int64(0)
            set_field(work, WORK_TASK, number)
        task = _task_at(shared, number)
        begin = max(field(task, TASK_BEGIN), 0)
        until = min(field(task, TASK_UNTIL), length)
        room = field(shared, JOB_STARTS) + 8 * begin
        result = call_kernel(field(shared, JOB_CALLEE), (work, text, length, begin, until, room))
        if result < 0 and result != MISSED:
            set_field(work, WORK_STATUS, result)
            set_field(shared, JOB_STOP, 1)
            return result
        set_field(task, TASK_STATUS, min(result, 0))
        set_field(task, TASK_REACHED, field(work, WORK_POSITION))
        set_field(task, TASK_IDS, field(work, WORK_OUTPUT_USED))
        number = np.int64(-1)
        set_field(work, WORK_TASK, number)


@kernel("int64(int64, int64)")
def call_rows(shared, worker):
    """Call the kernel at ``JOB_CALLEE`` with the rows of arguments in ``JOB_TASKS``: it takes 2, 4, 5 or 12."""
    callee = field(shared, JOB_CALLEE)
    arguments = field(shared, JOB_ARGUMENTS)
    while True:
        number = _take_task(shared, worker)
        if number < 0:
            return np.int64(0)
        row = field(shared, JOB_TASKS) + 8 * CALL_FIELDS * number
        two = (field(row, 0), field(row, 1))
        five = (*two, field(row, 2), field(row, 3), field(row, 4))
        if arguments == 2:
            result = call_kernel(callee, two)
        elif arguments == 4:
            result = call_kernel(callee, (*two, field(row, 2), field(row, 3)))
        elif arguments == 5:
            result = call_kernel(callee, five)
        else:
            more = (field(row, 5), field(row, 6), field(row, 7), field(row, 8))
            rest = (field(row, 9), field(row, 10), field(row, 11))
            result = call_kernel(callee, (*five, *more, *rest))
        set_field(row, CALL_RESULT, result)


@helper
def _stream(address, source):
    """Copy a uint32 array to an address, past the caches."""
    count = len(source)
    target = array_at(address, count, np.uint32)
    i = np.int64(0)
    while i < count and (address + 4 * i) & 31 != 0:
        put(target, i, at(source, i))
        i += 1
    while i + 8 <= count:
        stream_32_bytes(target, i, source, i)
        i += 8
    while i < count:
        put(target, i, at(source, i))
        i += 1


@kernel("int64(int64, int64)")
def gather_tasks(shared, worker):
    """Copy the ids of tasks to their place among all, and say where their documents end there.

    ``JOB_ITEM_BYTES`` is 4 or 2, the bytes of an id, or 0 where ids were only counted.
    """
    scratches = table(shared, JOB_SCRATCHES, np.int64)
    ends = table(shared, JOB_ENDS, np.int64)
    item_bytes = field(shared, JOB_ITEM_BYTES)
    room = field(shared, JOB_OUTPUT + 1)
    streams = item_bytes * room >= STREAMED_BYTES
    while True:
        number = _take_task(shared, worker)
        if number < 0:
            finish_streams()
            return np.int64(0)
        task = _task_at(shared, number)
        place = field(task, TASK_PLACE)
        flat = field(task, TASK_FLAT)
        count = field(task, TASK_IDS)
        first = field(task, TASK_FIRST)
        for document in range(first, first + field(task, TASK_COUNT)):
            if field(task, TASK_BEGIN) == AT_BEGINNING:
                put(ends, document, at(ends, document) - place + flat)
            elif field(task, TASK_UNTIL) == NO_UNTIL:
                put(ends, document, flat + count)
        if item_bytes == 0 or flat + count > room:
            continue
        source = array_at(field(at(scratches, field(task, TASK_WORKER)), WORK_OUTPUT) + 4 * place, count, np.uint32)
        address = field(shared, JOB_OUTPUT) + item_bytes * flat
        if streams and item_bytes == 4:
            _stream(address, source)
        else:
            copy_ids(address, item_bytes, source)
