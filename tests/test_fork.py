"""Processes made from this one: a child encodes, whether it was forked before, after or amid its parent's work."""

import multiprocessing
import os

import pytest

from support import output_of

FORKED = """
    import os, sys, threading
    import small
    from small import TEXT

    tokenizer = small.by_ranks()
    expected = small.naive_by_ranks().encode(TEXT)
    if not {"fresh", "starting"} & set(sys.argv):
        assert tokenizer.encode(TEXT).tolist() == expected
    if "starting" in sys.argv:
        threading.Thread(target=tokenizer.encode, args=[TEXT], daemon=True).start()
    if "busy" in sys.argv:
        threading.Thread(target=lambda: [tokenizer.encode(TEXT * 50) for _ in range(100)], daemon=True).start()
    for _ in range(3):
        child = os.fork()
        if child == 0:
            right = tokenizer.encode(TEXT).tolist() == expected and small.by_ranks().encode(TEXT).tolist() == expected
            right = right and tokenizer.decode_batch(tokenizer.encode_batch([TEXT, "x"])) == [TEXT, "x"]
            os._exit(0 if right else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert tokenizer.encode(TEXT).tolist() == expected
    print("done")
"""

STARTED = """
    import multiprocessing, sys
    import forkable, small

    tokenizer = small.by_ranks()
    expected = tokenizer.encode(small.TEXT).tolist()
    with multiprocessing.get_context(sys.argv[1]).Pool(2) as pool:
        print(pool.map(forkable.encode_small, [tokenizer] * 4) == [expected] * 4)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.parametrize("parent", ["fresh", "starting", "used", "busy"])
def test_forked_child_encodes(parent: str) -> None:
    """The child has its parent's tokenizer and caches, and can make its own; the parent goes on.

    "Busy" is a parent whose other thread encodes at the moment of the fork, "starting" one whose other thread builds
    the tables for its first use then, holding locks that the child must not inherit.
    """
    assert output_of(FORKED, parent, PYTHONWARNINGS="ignore").strip() == "done"


@pytest.mark.parametrize("method", multiprocessing.get_all_start_methods())
def test_pool_of_processes(method: str) -> None:
    """A tokenizer is sent to the workers of a pool, however they are started."""
    assert output_of(STARTED, method, PYTHONWARNINGS="ignore").strip() == "True"


APART = """
    import os, sys
    import numpy as np
    import small

    def text(seed):
        words = np.random.default_rng(seed).integers(97, 123, (200_000, 9)).astype(np.uint8)
        words[:, 8] = 32
        return words.tobytes()

    tokenizer = small.by_ranks()
    sources = [text(seed) for seed in range(3)]
    expected = [tokenizer.encode(source, num_threads=1) for source in sources]
    tokenizer.clear_cache()
    tokenizer.encode(sources[0], num_threads=1)  # the cache's tables are mapped memory now
    child = os.fork()
    if child == 0:
        os._exit(0 if np.array_equal(tokenizer.encode(sources[1], num_threads=1), expected[1]) else 1)
    for source, ids in zip(sources[::-1], expected[::-1]):
        assert np.array_equal(tokenizer.encode(source, num_threads=1), ids)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    for source, ids in zip(sources, expected):
        assert np.array_equal(tokenizer.encode(source, num_threads=1), ids)
    print("done")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_caches_of_parent_and_child_are_apart() -> None:
    """What one learns after the fork the other does not see, in tables that are too large for the heap too."""
    assert output_of(APART, PYTHONWARNINGS="ignore").strip() == "done"
