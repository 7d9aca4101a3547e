"""What rows for models, and budgets of tokens, cost beside what they cannot do without.

    python bench/budgets.py                    # GPT-2
    python bench/budgets.py --megabytes 16

- rows: ``to_padded`` beside filling fresh arrays of its result's size and copying the ids flat
- budgets: ``fits``, ``truncate`` and ``chunk`` beside one ``count`` of the whole text, the cache knowing the text

All in one process; the least of all repeats.
"""

import argparse
import time
from collections.abc import Callable

import numpy as np

import _common
import numbatok
from numbatok import TokenBatch

REPEATS = 5
SHARES = (0.05, 0.5, 0.95)
CHUNKS = (512, 8192)


def best(call: Callable[[], object]) -> float:
    """Seconds of the fastest of some calls, the first of which is left out."""
    call()
    times = []
    for _ in range(REPEATS):
        begin = time.perf_counter()
        result = call()
        times.append(time.perf_counter() - begin)
        del result
    return min(times)


def rows() -> None:
    """Padding of documents of about 128 ids, in bytes written."""
    rng = np.random.default_rng(0)
    lengths = rng.integers(64, 193, 200_000)
    batch = TokenBatch(rng.integers(0, 50_000, lengths.sum()).astype(np.uint32), np.cumsum([0, *lengths]))
    ids, mask = batch.to_padded(0)

    def fill() -> tuple[np.ndarray, np.ndarray]:
        return np.full(ids.shape, 1, np.uint32), np.full(mask.shape, True)

    seconds, filling, copying = best(lambda: batch.to_padded(0)), best(fill), best(batch.ids.copy)
    size = (ids.nbytes + mask.nbytes) / 1e9
    print(f"to_padded {1e3 * seconds:.1f} ms, {size / seconds:.1f} GB/s; filling {1e3 * filling:.1f} ms, ", end="")
    print(f"copying the ids {1e3 * copying:.1f} ms")


def budgets(tokenizer: numbatok.Tokenizer, name: str, text: str) -> None:
    """Times of one text, as parts of one count."""
    count = tokenizer.count(text)
    whole = best(lambda: tokenizer.count(text))
    print(f"{name}: {len(text.encode()) / 1e6:.1f} MB, {count} tokens, count {1e3 * whole:.2f} ms")
    for share in SHARES:
        most = int(share * count)
        calls = {
            "fits": lambda most=most: tokenizer.fits(text, most),
            "truncate": lambda most=most: tokenizer.truncate(text, most),
            "truncate left": lambda most=most: tokenizer.truncate(text, most, "left"),
        }
        print(f"  {share:4.0%} of it: ", ", ".join(f"{key} {best(call) / whole:.2f}" for key, call in calls.items()))
    for most in CHUNKS:
        times = {
            at: best(lambda most=most, at=at: tokenizer.chunk(text, most, at=at)) / whole for at in ("piece", "line")
        }
        print(f"  chunks of {most}: ", ", ".join(f"{at} {ratio:.2f}" for at, ratio in times.items()))


def main() -> None:
    """Print all figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=float, default=4)
    parser.add_argument("--encoding", default="gpt2")
    arguments = parser.parse_args()
    rows()
    tokenizer = numbatok.get_encoding(arguments.encoding)
    size = int(1e6 * arguments.megabytes)
    for name in ("english-web", "code", "chinese"):
        text = _common.read_text(name, size)
        if text is None:
            _common.complain(f"no text {name}")
        else:
            budgets(tokenizer, name, text.decode())


if __name__ == "__main__":
    main()
