"""Vocabularies inside the package: a compact form of published rank files, and how it is made and checked.

    python -m numbatok.loading.embedded r50k_base.tiktoken    # packs it beside this module

A packed file is an .xz of: the number of tokens (uint32), the differences of their ranks (uint32 each, nearly all 1),
their lengths (uint8 each), and their bytes one after the other. Loading rebuilds the published rank file from it and
compares its SHA-256, so what is used is what was published.
"""

import base64
import binascii
import hashlib
import lzma
import sys
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from numbatok.added_tokens import AddedToken, AddedTokens
from numbatok.errors import VocabularyError
from numbatok.parts import Parts
from numbatok.patterns.rules import GPT2, Split
from numbatok.tokenizer import Tokenizer
from numbatok.vocabulary import Vocabulary

DATA = Path(__file__).parent / "data"

#: SHA-256 of the rank files as tiktoken publishes them (``tiktoken_ext/openai_public.py``).
PUBLISHED = {"r50k_base": "306cd27f03c1a714eca7108e03d66b7dc042abe8c258b44c199a7ed9838dd930"}


@dataclass(frozen=True)
class Encoding:
    """What makes a named encoding besides its ranks."""

    ranks: str
    pattern: str
    special_tokens: dict[str, int]


_GPT2 = Encoding("r50k_base", GPT2, {"<|endoftext|>": 50256})
ENCODINGS = {"gpt2": _GPT2, "r50k_base": _GPT2}


def parse_ranks(content: bytes) -> tuple[list[bytes], list[int]]:
    """(tokens, ranks) of a rank file: a line for each token, its base64, a space and its rank."""
    tokens, ranks = [], []
    for number, line in enumerate(content.splitlines(), 1):
        if not line:
            continue
        try:
            encoded, rank = line.split()
            tokens.append(base64.b64decode(encoded, validate=True))
            ranks.append(int(rank))
        except ValueError as error:
            raise VocabularyError(
                f"line {number} is {line[:60]!r}; wanted base64, a space and a rank ({error})"
            ) from None
    return tokens, ranks


def rank_file(tokens: list[bytes], ranks: list[int]) -> bytes:
    """The rank file of tokens and their ranks: the inverse of :func:`parse_ranks`."""
    lines = [
        b"%b %d\n" % (binascii.b2a_base64(token, newline=False), rank)
        for token, rank in zip(tokens, ranks, strict=True)
    ]
    return b"".join(lines)


def pack(content: bytes) -> bytes:
    """The compact form of a rank file."""
    tokens, ranks = parse_ranks(content)
    steps = np.diff(np.array(ranks, np.int64), prepend=-1)
    if rank_file(tokens, ranks) != content or steps.min() < 1 or max(map(len, tokens)) > 255:
        raise VocabularyError(
            "only a rank file with rising ranks, no other bytes and tokens of at most 255 can be packed"
        )
    parts = [len(tokens).to_bytes(4, "little"), steps.astype("<u4").tobytes(), bytes(map(len, tokens)), *tokens]
    return lzma.compress(b"".join(parts), preset=9 | lzma.PRESET_EXTREME)


def unpack(packed: bytes) -> tuple[list[bytes], list[int]]:
    """(tokens, ranks) of a packed rank file."""
    content = lzma.decompress(packed)
    count = int.from_bytes(content[:4], "little")
    steps = np.frombuffer(content, "<u4", count, 4)
    ends = 4 + 5 * count + np.cumsum(np.frombuffer(content, np.uint8, count, 4 + 4 * count), dtype=np.int64)
    edges = [4 + 5 * count, *ends.tolist()]
    tokens = [content[begin:end] for begin, end in pairwise(edges)]
    return tokens, (np.cumsum(steps, dtype=np.int64) - 1).tolist()


def load_ranks(name: str) -> tuple[list[bytes], list[int]]:
    """(tokens, ranks) of an embedded rank file, checked against the published SHA-256."""
    try:
        tokens, ranks = unpack((DATA / f"{name}.xz").read_bytes())
    except (lzma.LZMAError, ValueError) as error:
        raise VocabularyError(f"the embedded vocabulary {name} is damaged ({error}); install numbatok anew") from None
    digest = hashlib.sha256(rank_file(tokens, ranks)).hexdigest()
    if digest != PUBLISHED[name]:
        raise VocabularyError(
            f"the embedded vocabulary {name} is damaged: its SHA-256 is {digest}, the published one is "
            f"{PUBLISHED[name]}; install numbatok anew"
        )
    return tokens, ranks


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
    tokens, ranks = load_ranks(encoding.ranks)
    added = AddedTokens(AddedToken(content, number) for content, number in encoding.special_tokens.items())
    return Tokenizer(Parts(Vocabulary.from_ranks(tokens, ranks), added, (Split(encoding.pattern),), name=name))


def main() -> None:
    """Pack the rank files named on the command line into the package."""
    for argument in sys.argv[1:]:
        path = Path(argument)
        content = path.read_bytes()
        if hashlib.sha256(content).hexdigest() != PUBLISHED.get(path.stem):
            sys.exit(f"{path}: not the published {path.stem}")
        DATA.mkdir(exist_ok=True)
        (DATA / f"{path.stem}.xz").write_bytes(pack(content))


if __name__ == "__main__":
    main()
