"""What offsets, streams, budgets of tokens and rows for models cost, beside what they cannot do without.

    python bench/around.py
    python bench/around.py -t o200k_base --files code --megabytes 16

- *offsets*: the time of ``encode_batch`` with them over that without, for the text as one and for its documents
- *streams*: encoder streams by the size of their parts, in MB/s; decoder streams in ns a token, one by one from Python
  and 2048 streams in step
- *budgets*: ``fits``, ``truncate`` and ``chunk`` over one ``count`` of the whole text
- *prefix cache*: a text of a million characters with a thousand more, over encoding all of it: in a chat, where each
  text goes on from the one before, and for texts that go on from the same one
- *rows*: ``to_padded`` beside filling fresh arrays of its result's size and copying the ids flat

All in one process, which is pinned, with caches that know the text; the least of all repeats.
"""

import itertools
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import _common
import _sides
import numbatok
from _common import least, short
from numbatok import TokenBatch

FILES = ("english-web",)
PARTS = (16, 256, 4096, 65536)
STREAMS = 2048
SHARES = (0.05, 0.5, 0.95)
CHUNKS = (512, 8192)
PROMPT, TURN, TURNS = 10**6, 1000, 40


def offsets(tokenizer: numbatok.Tokenizer, text: str, seconds: float) -> dict[str, dict[str, float]]:
    """Seconds of encoding without offsets and with each kind, which take turns."""
    documents = [text[place : place + 4000] for place in range(0, len(text), 4000)]
    short_text = text[:256]
    calls = {
        "one text": lambda unit: tokenizer.encode_batch([text], return_offsets=unit),
        "documents of 4000": lambda unit: tokenizer.encode_batch(documents, return_offsets=unit),
        "256 characters": lambda unit: (
            tokenizer.encode_with_offsets(short_text, unit=unit) if unit else tokenizer.encode(short_text)
        ),
    }
    results: dict[str, dict[str, float]] = {}
    for name, call in calls.items():
        best: dict[str, float] = {}
        for _, (key, unit) in itertools.product(range(5), (("without", None), ("char", "char"), ("byte", "byte"))):
            best[key] = min(least(partial(call, unit), seconds / 5), best.get(key, float("inf")))
        results[name] = best
    return results


def encode_in_parts(tokenizer: numbatok.Tokenizer, text: str, size: int) -> None:
    """A stream over a text in parts."""
    stream = tokenizer.stream_encoder()
    for place in range(0, len(text), size):
        stream.feed(text[place : place + size])
    stream.finish()


def decode_one_by_one(tokenizer: numbatok.Tokenizer, ids: list[int]) -> None:
    """A stream over ids."""
    feed = tokenizer.stream_decoder().feed
    for number in ids:
        feed(number)


def decode_in_step(tokenizer: numbatok.Tokenizer, steps: np.ndarray) -> None:
    """Many streams over ids, a row a step."""
    feed = tokenizer.batch_stream_decoder(steps.shape[1]).feed
    for row in steps:
        feed(row)


def streams(tokenizer: numbatok.Tokenizer, text: str, seconds: float) -> dict[str, Any]:
    """MB/s of encoder streams by the size of their parts, and ns a token of decoder streams."""
    encoders = {}
    for size in PARTS:
        part = text[: 2000 * size]
        encoders[size] = len(part.encode()) / least(partial(encode_in_parts, tokenizer, part, size), seconds) / 1e6
    ids = tokenizer.encode(text, add_special_tokens=False)
    some = ids[:100_000].tolist()
    alone = least(partial(decode_one_by_one, tokenizer, some), seconds) / len(some) * 1e9
    steps = np.ascontiguousarray(ids[: len(ids) // STREAMS * STREAMS].reshape(STREAMS, -1).T)
    together = least(partial(decode_in_step, tokenizer, steps), seconds) / steps.size * 1e9
    return {"encoders": encoders, "decoder": alone, "decoders": together}


def budgets(tokenizer: numbatok.Tokenizer, text: str, seconds: float) -> dict[str, Any]:
    """The seconds of one count, and the times of other calls over it."""
    count = tokenizer.count(text)
    whole = least(partial(tokenizer.count, text), seconds)
    budgets_of = {f"{share:.0%}": int(share * count) for share in SHARES}
    chunks_of = {f"{most} tokens": most for most in CHUNKS}
    calls = {
        "fits": (tokenizer.fits, budgets_of),
        "truncate": (tokenizer.truncate, budgets_of),
        "truncate left": (partial(tokenizer.truncate, side="left"), budgets_of),
        **{f"chunk at {at}": (partial(tokenizer.chunk, at=at), chunks_of) for at in ("piece", "line")},
    }
    over = {
        name: {what: least(partial(call, text, most), seconds) / whole for what, most in those.items()}
        for name, (call, those) in calls.items()
    }
    return {"count": whole, "over": over}


def prefix_cache(tokenizer: numbatok.Tokenizer, text: str) -> dict[str, float]:
    """Median seconds to encode a long prompt with another turn: of a chat that grows, of many that begin alike.

    Each text is joined just before it is encoded, as a caller does, with the cache and without.
    """
    prompt = text[:PROMPT]
    turns = [text[at : at + TURN] for at in range(PROMPT, len(text) - TURN, TURN)][:TURNS]
    ways: dict[str, Callable[[], Iterable[str]]] = {
        "chat": lambda: itertools.islice(itertools.accumulate(turns, initial=prompt), 1, None),
        "alike": lambda: (prompt + turn for turn in turns),
    }

    def median(encode: Callable[[str], object], texts: Iterable[str]) -> float:
        return statistics.median(_common.timed(partial(encode, one))[0] for one in texts)

    results = {"without": median(tokenizer.encode, ways["chat"]())}
    for name, texts in ways.items():
        cache = tokenizer.with_prefix_cache(1 << 30)
        cache.encode(prompt)
        results[name] = median(cache.encode, texts())
    return results


def rows(seconds: float) -> dict[str, float]:
    """Padding of 200,000 documents of about 128 ids: bytes of the result, and seconds of it and what it must do."""
    rng = np.random.default_rng(0)
    lengths = rng.integers(64, 193, 200_000)
    batch = TokenBatch(rng.integers(0, 50_000, lengths.sum()).astype(np.uint32), np.cumsum([0, *lengths]))
    ids, mask = batch.to_padded(0)

    def fill() -> tuple[np.ndarray, np.ndarray]:
        return np.full(ids.shape, 1, np.uint32), np.full(mask.shape, True)

    return {
        "bytes": ids.nbytes + mask.nbytes,
        "to_padded": least(partial(batch.to_padded, 0), seconds),
        "filling": least(fill, seconds),
        "copying": least(batch.ids.copy, seconds),
    }


def show(results: dict[str, Any]) -> None:
    """Print all tables."""
    table = [
        [name, short(one["without"] * 1e6), *(f"{one[unit] / one['without']:.2f}" for unit in ("char", "byte"))]
        for name, one in results["offsets"].items()
    ]
    print("\nmicroseconds without offsets, and times as long with them")
    _common.print_table(["", "without", "in characters", "in bytes"], table)
    found = results["streams"]
    _common.print_table(["encoder streams, parts of", "MB/s"], [[k, short(v)] for k, v in found["encoders"].items()])
    print(f"decoder streams: one by one {found['decoder']:.0f} ns a token, {STREAMS} {found['decoders']:.1f} ns\n")
    print(f"times of one count, which takes {results['budgets']['count'] * 1e3:.2f} ms")
    table = [
        [f"{name}, {what}", f"{value:.2f}"]
        for name, those in results["budgets"]["over"].items()
        for what, value in those.items()
    ]
    _common.print_table(["", "over it"], table)
    if cached := results["prefix cache"]:
        chat, alike = (cached[name] / cached["without"] for name in ("chat", "alike"))
        print(
            f"prefix cache, {PROMPT:,} characters and {TURN:,} more, over encoding all of them: {chat:.1%} in a chat,"
        )
        print(f"{alike:.1%} for {TURNS} texts that begin alike")
    one = results["rows"]
    print(
        f"to_padded: {one['to_padded'] * 1e3:.1f} ms, {one['bytes'] / one['to_padded'] / 1e9:.1f} GB/s; "
        f"filling {one['filling'] * 1e3:.1f} ms, copying the ids {one['copying'] * 1e3:.1f} ms"
    )


def main() -> int:
    """Measure and print."""
    parser = _common.parser(__doc__)
    parser.add_argument("--files", nargs=1, metavar="NAME", help=f"a corpus file or path (default: {FILES[0]})")
    parser.add_argument("--megabytes", type=float, default=4, help="of the text (default: 4)")
    parser.add_argument("--seconds", type=float, default=0.5, help="for each figure (default: 0.5)")
    options = parser.parse_args()
    _common.pin(options.cores)
    (name,) = _common.choose_files(options.files, FILES)[:1]
    about = _common.machine(options.cores)
    _common.print_machine(about)
    text = (_common.read_text(name, int(options.megabytes * 1e6)) or b"").decode()
    with tempfile.TemporaryDirectory() as folder:
        tokenizer = _sides.Numbatok(_sides.prepare(options.tokenizer, Path(folder)), 1).tokenizer
    share = _common.CoreShare()
    results = {
        "offsets": offsets(tokenizer, text, options.seconds),
        "streams": streams(tokenizer, text, options.seconds),
        "budgets": budgets(tokenizer, text, options.seconds),
        "prefix cache": prefix_cache(tokenizer, text) if len(text) > PROMPT + TURNS * TURN else {},
        "rows": rows(options.seconds),
    }
    show(results)
    _common.warn_of_others([share.so_far()], options.cores)
    _common.write_json(options.json, about, tokenizer=options.tokenizer, text=name, bytes=len(text.encode()), **results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
