"""NumPy before version 2 has an integer of 32 bits by default on Windows: what kernels read as int64 must be asked for.

Here two processes do the same, one of them with that integer.
"""

import dataclasses
import textwrap
from typing import Any

import pytest

import numbatok
import small
from numbatok import Tokenizer, decoders
from numbatok.normalizers import NFC, Lowercase, Prepend, Replace, Sequence
from numbatok.templates import Trim
from support import output_of

#: Lets these functions of NumPy give numbatok int32 where they would there.
NARROW = """
    import functools, sys
    import numpy as np

    def integers(value):
        if isinstance(value, (list, tuple)):
            return all(map(integers, value))
        return type(value) in (int, bool)

    def narrowed(function):
        @functools.wraps(function)
        def call(*arguments, **options):
            made = function(*arguments, **options)
            own = sys._getframe(1).f_globals.get("__name__", "").startswith("numbatok.")
            asked = any(isinstance(each, (type, np.dtype)) for each in arguments) or {"dtype", "out"} & options.keys()
            given = arguments[0] if function.__name__ in ("array", "asarray", "cumsum") else list(arguments)
            if function.__name__ == "where":
                given = given[1:] or [made]
            small = isinstance(given, np.ndarray) and given.dtype.kind in "biu" and given.dtype.itemsize < 4
            if not own or asked or made.dtype != np.int64 or not (integers(given) or small):
                return made
            return made.astype(np.int32) if not made.size or abs(made).max() < 1 << 31 else made
        return call

    for name in ("arange", "array", "asarray", "cumsum", "full", "where"):
        setattr(np, name, narrowed(getattr(np, name)))
"""

WORK = {
    "decoding": """
        for tokenizer in (numbatok.get_encoding("gpt2"), small.by_merges()):
            ids = tokenizer.encode(small.TEXT)
            print(tokenizer.decode(ids) == tokenizer.decode(ids.tolist()) == small.TEXT)
            print(tokenizer.decode_bytes(ids[::2]), tokenizer.decode_batch([ids[:5], [], ids[5:]]))
            print(tokenizer.decode(ids, skip_special_tokens=True) == small.TEXT)
    """,
    "normalizers": """
        from numbatok.normalizers import NFC, NFD, NFKC, Lowercase, Prepend, Replace, Sequence, Strip, StripAccents
        parts = NFD(), NFC(), NFKC(), Lowercase(), StripAccents(), Strip(), Prepend("xy"), Replace("e", "ee")
        for normalizer in (*parts, Replace(r"\\\\s+", " ", True), Sequence(parts)):
            for text in ("", " \\u0130e\\u0301 \\ufb01 ", small.TEXT):
                found = normalizer.sources(text)
                print(found.dtype, found.tolist(), normalizer.aligned(text)[0])
    """,
    "windows": """
        tokenizer = numbatok.get_encoding("gpt2")
        for windows in (
            tokenizer.encode_windows([small.TEXT, "a", ""], max_length=20, stride=3),
            tokenizer.encode_windows(["a b c d", "e"], ["f g h", ""], max_length=4, direction="left"),
            tokenizer.encode_words([["a", "b c"], [], ["d"]], max_length=2, overflow=True),
        ):
            print(windows.owners.dtype, windows.batch.tolist(), windows.owners.tolist(), windows.words)
    """,
    "vocabulary": """
        for tokenizer in (small.by_ranks(), small.by_merges()):
            table = tokenizer.vocabulary()
            print(table.rank.dtype, table.rank.tolist(), table.ids.tolist(), table.kind)
    """,
    "compat": """
        from numbatok.compat.huggingface import Tokenizer
        tokenizer = Tokenizer.from_numbatok(small.by_merges())
        for encoding in tokenizer.encode_batch(["a the", ("b", "the c"), ""]):
            print(encoding.ids, tokenizer.decode(encoding.ids))
    """,
    "offsets, budgets, streams and batches": """
        from test_default_integer import results, tokenizers
        for name, tokenizer in tokenizers().items():
            print(name, results(tokenizer))
    """,
}


def tokenizers() -> dict[str, Tokenizer]:
    """The small vocabulary, plain, trimmed, normalized in several ways, and decoded in steps."""
    parts = small.by_merges().add_tokens([" the ", "<m>"], normalized=True)._parts
    one_for_one = Sequence((Prepend("_"), Replace(" ", "_")))
    changes: dict[str, dict[str, Any]] = {
        "plain": {},
        "trimmed": {"trims": (Trim(True),)},
        "composed": {"normalizer": NFC()},
        "lower": {"normalizer": Lowercase()},
        "one for one": {"normalizer": one_for_one},
        "longer": {"normalizer": Replace("a", "xyz"), "trims": (Trim(False),)},
        "steps": {"decoder": (decoders.Replace("e", "i"), decoders.Suffix("s"))},
        "strings": {"decoder": (decoders.ByteFallback(), decoders.Fuse())},
    }
    made = {name: Tokenizer(dataclasses.replace(parts, **change)) for name, change in changes.items()}
    return {**made, "gpt2": numbatok.get_encoding("gpt2")}


def results(tokenizer: Tokenizer) -> list[Any]:
    """What calls that make arrays for kernels give."""
    text = small.TEXT + " <m> THE e\u0301 the cat\n"
    found: list[Any] = []
    for unit in ("char", "byte"):
        batch = tokenizer.encode_batch([text, "", "The İ <m>"], return_offsets=unit)
        chosen = batch.take([2, 0]), batch[::-1], batch[1:]
        found += [(each.ids.tolist(), each.token_offsets.tolist(), each.token_offsets.dtype) for each in chosen]
        found.append([array.tolist() for array in tokenizer.encode_with_offsets(text, unit=unit)])
    long = text * 300
    count = tokenizer.count(text)
    for side in ("right", "left"):
        found += [tokenizer.truncate(text, share * count // 10, side) for share in (1, 5, 9)]
        if tokenizer.name:  # of others each part is counted whole
            found += [tokenizer.truncate(long, 250 * count, side), tokenizer.truncate("é" * 9000, 4000, side)]
    found += [tokenizer.chunk(text, 40, 7, at) for at in ("piece", "sentence", "paragraph")]
    ids = tokenizer.encode(text)
    streams = tokenizer.batch_stream_decoder(2)
    for given in ([5, 6], [ids[0], ids[1]], ids[:2]):
        found += [array.tolist() for array in streams.feed(given)]
    fed = streams.feed(ids, [0, len(ids) // 2, len(ids)])
    found += [(array.tolist(), array.dtype) for array in (*fed, *streams.finish())]
    cache = tokenizer.with_prefix_cache(1 << 20)
    return [*found, cache.encode(text).tolist(), cache.encode(text + text).tolist()]


@pytest.mark.parametrize("work", WORK)
def test_default_integer(work: str) -> None:
    """Results, and the types that are promised, are the same."""
    code = "import numpy as np\nimport small\nimport numbatok\n" + textwrap.dedent(WORK[work])
    assert output_of(textwrap.dedent(NARROW) + code) == output_of(code)
