"""NumPy before version 2 has an integer of 32 bits by default on Windows: what kernels read as int64 must be asked for.

Here two processes do the same, one of them with that integer.
"""

import textwrap

import pytest

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
            small = isinstance(given, np.ndarray) and given.dtype.kind in "biu" and given.dtype.itemsize < 4
            if not own or asked or made.dtype != np.int64 or not (integers(given) or small):
                return made
            return made.astype(np.int32) if not made.size or abs(made).max() < 1 << 31 else made
        return call

    for name in ("arange", "array", "asarray", "cumsum", "full"):
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
}


@pytest.mark.parametrize("work", WORK)
def test_default_integer(work: str) -> None:
    """Results, and the types that are promised, are the same."""
    code = "import numpy as np\nimport small\nimport numbatok\n" + textwrap.dedent(WORK[work])
    assert output_of(textwrap.dedent(NARROW) + code) == output_of(code)
