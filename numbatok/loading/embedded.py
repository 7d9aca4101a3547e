"""Vocabularies inside the package: a compact form of published rank files, and how it is made and checked.

    python -m numbatok.loading.embedded r50k_base.tiktoken    # packs it beside this module

A packed file is zlib's compression of: the number of tokens (uint32), the differences of their ranks (uint32 each,
nearly all 1), their lengths (uint8 each), and their bytes one after the other. Loading rebuilds the published rank file
from it and compares its SHA-256, so what is used is what was published.
"""

import binascii
import hashlib
import sys
import zlib
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt

from numbatok.added_tokens import AddedToken, AddedTokens
from numbatok.errors import VocabularyError
from numbatok.loading.rank_file import parse_ranks
from numbatok.parts import Parts
from numbatok.patterns.known import O200K, TIKTOKEN_CL100K
from numbatok.patterns.rules import GPT2, Split
from numbatok.tokenizer import Tokenizer
from numbatok.vocabulary import Vocabulary

DATA = Path(__file__).parent / "data"

#: SHA-256 of the rank files as tiktoken publishes them (``tiktoken_ext/openai_public.py``).
PUBLISHED = {
    "r50k_base": "306cd27f03c1a714eca7108e03d66b7dc042abe8c258b44c199a7ed9838dd930",
    "p50k_base": "94b5ca7dff4d00767bc256fdd1b27e5b17361d7b8a5f968547f9f23eb70d2069",
    "cl100k_base": "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
    "o200k_base": "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
}


@dataclass(frozen=True)
class Encoding:
    """What makes a named encoding besides its ranks."""

    ranks: str
    pattern: str
    special_tokens: dict[str, int]


_END = "<|endoftext|>"
_FIM = ("<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>")
_HARMONY = {
    199998: "<|startoftext|>",
    199999: _END,
    200002: "<|return|>",
    200003: "<|constrain|>",
    200005: "<|channel|>",
    200006: "<|start|>",
    200007: "<|end|>",
    200008: "<|message|>",
    200012: "<|call|>",
}
_GPT2 = Encoding("r50k_base", GPT2, {_END: 50256})
ENCODINGS = {
    "gpt2": _GPT2,
    "r50k_base": _GPT2,
    "p50k_base": Encoding("p50k_base", GPT2, {_END: 50256}),
    "p50k_edit": Encoding("p50k_base", GPT2, {_END: 50256} | {name: 50281 + n for n, name in enumerate(_FIM)}),
    "cl100k_base": Encoding(
        "cl100k_base",
        TIKTOKEN_CL100K,
        {_END: 100257, "<|endofprompt|>": 100276} | {name: 100258 + n for n, name in enumerate(_FIM)},
    ),
    "o200k_base": Encoding("o200k_base", O200K, {_END: 199999, "<|endofprompt|>": 200018}),
    # The published table gives <|endofprompt|> and <|reserved_200018|> one id, which is decoded as the former.
    "o200k_harmony": Encoding(
        "o200k_base",
        O200K,
        {"<|endofprompt|>": 200018}
        | {_HARMONY.get(number, f"<|reserved_{number}|>"): number for number in range(199998, 201088)},
    ),
}


@dataclass(frozen=True)
class RankTable:
    """The tokens of a rank file: their bytes one after the other, their edges in them (one more), and their ranks."""

    data: npt.NDArray[np.uint8]
    starts: npt.NDArray[np.int64]
    ranks: npt.NDArray[np.int64]

    def tokens(self) -> list[bytes]:
        """The bytes of each token."""
        data = self.data.tobytes()
        return [data[begin:end] for begin, end in pairwise(self.starts.tolist())]

    def file(self) -> bytes:
        """The rank file, as :func:`numbatok.loading.rank_file.rank_file` makes it a token at a time."""
        lengths = np.diff(self.starts)
        groups = (lengths + 2) // 3  # of three bytes, four characters in base64
        # Each token is filled up to whole groups, so one call encodes all of them.
        filled = np.zeros(3 * int(groups.sum()), np.uint8)
        begins = 3 * (np.cumsum(groups) - groups)
        filled[np.repeat(begins - self.starts[:-1], lengths) + np.arange(len(self.data))] = self.data
        encoded = np.frombuffer(binascii.b2a_base64(filled.tobytes(), newline=False), np.uint8).copy()
        ends = 4 * np.cumsum(groups)
        encoded[ends[lengths % 3 > 0] - 1] = ord("=")
        encoded[ends[lengths % 3 == 1] - 2] = ord("=")
        digits = np.ones(len(groups), np.int64)
        for power in range(1, 10):
            digits += self.ranks >= 10**power
        widths = 4 * groups + digits + 2
        stops = np.cumsum(widths)
        lines = np.full(int(stops[-1]), ord(" "), np.uint8)
        lines[np.repeat(stops - widths - (ends - 4 * groups), 4 * groups) + np.arange(len(encoded))] = encoded
        lines[stops - 1] = ord("\n")
        for power in range(int(digits.max())):
            there = digits > power
            lines[stops[there] - 2 - power] = ord("0") + self.ranks[there] // 10**power % 10
        return lines.tobytes()


def pack(content: bytes) -> bytes:
    """The compact form of a rank file."""
    tokens, ranks = parse_ranks(content)
    steps = np.diff(np.array(ranks, np.int64), prepend=-1)
    if steps.min() >= 1 and steps.max() < 1 << 32 and max(map(len, tokens)) <= 255:
        parts = [len(tokens).to_bytes(4, "little"), steps.astype("<u4").tobytes(), bytes(map(len, tokens)), *tokens]
        packed = zlib.compress(b"".join(parts), 9)
        if unpack(packed).file() == content:
            return packed
    raise VocabularyError("only a rank file with rising ranks, no other bytes and tokens of at most 255 can be packed")


def unpack(packed: bytes) -> RankTable:
    """The tokens of a packed rank file; ValueError where it is none."""
    try:
        content = zlib.decompress(packed)
    except zlib.error as error:
        raise ValueError(str(error)) from None
    count = int.from_bytes(content[:4], "little")
    steps = np.frombuffer(content, "<u4", count, 4)
    starts = np.zeros(count + 1, np.int64)
    np.cumsum(np.frombuffer(content, np.uint8, count, 4 + 4 * count), out=starts[1:])
    data = np.frombuffer(content, np.uint8, -1, 4 + 5 * count)
    if count == 0 or len(data) != starts[-1]:
        raise ValueError(f"{len(data)} bytes of tokens where {starts[-1]} are wanted")
    return RankTable(data, starts, np.cumsum(steps, dtype=np.int64) - 1)


def load_table(name: str) -> RankTable:
    """An embedded rank file, checked against the published SHA-256."""
    try:
        table = unpack((DATA / f"{name}.z").read_bytes())
    except ValueError as error:
        raise VocabularyError(f"the embedded vocabulary {name} is damaged ({error}); install numbatok anew") from None
    digest = hashlib.sha256(table.file()).hexdigest()
    if digest != PUBLISHED[name]:
        raise VocabularyError(
            f"the embedded vocabulary {name} is damaged: its SHA-256 is {digest}, the published one is "
            f"{PUBLISHED[name]}; install numbatok anew"
        )
    return table


def load_ranks(name: str) -> tuple[list[bytes], list[int]]:
    """(tokens, ranks) of an embedded rank file, checked as :func:`load_table` does."""
    table = load_table(name)
    return table.tokens(), table.ranks.tolist()


def get_encoding(name: str) -> Tokenizer:
    """The tokenizer of a named encoding, from inside the package: no network, no cache directory.

    Each call gives a tokenizer of its own. Raises ValueError for a name that is not embedded.

    >>> numbatok.get_encoding("gpt2").encode("Hello world")
    array([15496,   995], dtype=uint32)
    """
    if not isinstance(name, str):
        raise TypeError(f"an encoding's name must be str, not {type(name).__name__}")
    encoding = ENCODINGS.get(name)
    if encoding is None:
        raise ValueError(f"unknown encoding {name!r}; embedded are {', '.join(sorted(ENCODINGS))}")
    table = load_table(encoding.ranks)
    # The SHA-256 vouches for what Vocabulary.from_ranks would check.
    vocabulary = Vocabulary(table.data, table.starts, table.ranks.astype(np.uint32), None, True)
    added = AddedTokens(AddedToken(content, number) for content, number in encoding.special_tokens.items())
    return Tokenizer(Parts(vocabulary, added, (Split(encoding.pattern),), name=name))


def main() -> None:
    """Pack the rank files named on the command line into the package."""
    for argument in sys.argv[1:]:
        path = Path(argument)
        content = path.read_bytes()
        if hashlib.sha256(content).hexdigest() != PUBLISHED.get(path.stem):
            sys.exit(f"{path}: not the published {path.stem}")
        DATA.mkdir(exist_ok=True)
        (DATA / f"{path.stem}.z").write_bytes(pack(content))


if __name__ == "__main__":
    main()
