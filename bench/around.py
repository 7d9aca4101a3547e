"""What offsets and streams cost, beside plain encoding.

    python bench/around.py
    python bench/around.py --tokenizers gpt2 path/to/tokenizer.json --text code

All in this process, with warm caches; the best of the repeats. Offsets are given as the time of ``encode_batch`` with
them over that without, for the text as one and for its documents; encoder streams by the size of their parts, in MB/s;
decoder streams in ns a token, one by one from Python and 2048 streams in step.
"""

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import _common
import numbatok

PARTS = (16, 256, 4096, 65536)
STREAMS = 2048


def best(repeats: int, work: Callable[..., object], *arguments: object, **options: object) -> float:
    """Seconds of the fastest of some runs."""
    work(*arguments, **options)
    seconds = []
    for _ in range(repeats):
        started = time.perf_counter()
        work(*arguments, **options)
        seconds.append(time.perf_counter() - started)
    return min(seconds)


def offsets(tokenizer: numbatok.Tokenizer, texts: list[str]) -> str:
    """How much longer encoding takes with offsets; the three take turns."""
    seconds: dict[str | None, float] = {}
    for _ in range(30):
        for unit in (None, "char", "byte"):
            now = best(1, tokenizer.encode_batch, texts, return_offsets=unit)
            seconds[unit] = min(now, seconds.get(unit, now))
    plain = seconds[None]
    char, byte = seconds["char"] / plain, seconds["byte"] / plain
    megabytes = sum(len(text.encode()) for text in texts) / 1e6
    return f"{megabytes / plain:.0f} MB/s without; in characters {char:.2f}, in bytes {byte:.2f} times as long"


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


def report(tokenizer: numbatok.Tokenizer, text: str) -> None:
    """Print the figures of one tokenizer."""
    print(f"  offsets, one text   {offsets(tokenizer, [text])}")
    documents = [text[place : place + 4000] for place in range(0, len(text), 4000)]
    print(f"  offsets, documents  {offsets(tokenizer, documents)}")
    short = text[:256]
    plain, found = best(2000, tokenizer.encode, short), best(2000, tokenizer.encode_with_offsets, short)
    print(f"  256 characters      {plain * 1e6:.1f} us without, {found * 1e6:.1f} us with")
    for size in PARTS:
        part = text[: 2000 * size]
        seconds = best(3, encode_in_parts, tokenizer, part, size)
        print(f"  parts of {size:5}      {len(part.encode()) / seconds / 1e6:.1f} MB/s")
    ids = tokenizer.encode(text, add_special_tokens=False)
    some = ids[:100_000].tolist()
    seconds = best(7, decode_one_by_one, tokenizer, some)
    print(f"  decoder, one by one {seconds / len(some) * 1e9:.0f} ns a token")
    steps = np.ascontiguousarray(ids[: len(ids) // STREAMS * STREAMS].reshape(STREAMS, -1).T)
    seconds = best(7, decode_in_step, tokenizer, steps)
    print(f"  {STREAMS} decoders       {seconds / steps.size * 1e9:.1f} ns a token")


def main() -> None:
    """Print the figures of each tokenizer."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tokenizers", nargs="+", default=["gpt2", "o200k_base"], help="encodings or files")
    parser.add_argument("--text", default="english", help="a sample text")
    options = parser.parse_args()
    content = _common.read_text(options.text, 2_000_000) or _common.read_text(_common.STAND_INS[0], 2_000_000)
    assert content is not None
    for name in options.tokenizers:
        print(name)
        is_file = Path(name).exists()
        report(numbatok.Tokenizer.from_file(name) if is_file else numbatok.get_encoding(name), content.decode())


if __name__ == "__main__":
    main()
