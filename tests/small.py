"""Small vocabularies trained in the test, so that all is covered where no test data is: by ranks and by merges."""

import json
from collections import Counter
from itertools import pairwise

import naive
from numbatok import AddedToken, Tokenizer
from numbatok.added_tokens import AddedTokens
from numbatok.parts import Parts
from numbatok.patterns.rules import GPT2, Split
from numbatok.vocabulary import Vocabulary

RULE = (Split(GPT2),)
TEXT = """\
The quick brown fox jumps over the lazy dog; the dog doesn't care, and they'll both sleep. We've seen it before.
There is there, here is where: then those others thought that this thing, these things, were the other theory.
def walk(self, text):\n        return self.walk(text[1:]) if len(text) > 100 else []\n\n
1000 2000 2024 1999 10 100 1234567890 === ---- ... !!! ((( ))) "quoted" 'single'
L'été dernier, nous étions à la plage; où était-il? Größe, Straße, über.
Быстрая коричневая лиса прыгает через ленивую собаку, собака спит и не видит лису.
天地玄黃宇宙洪荒日月盈昃辰宿列張寒來暑往秋收冬藏 天地 日月 日月 中国的中文文章和中国人。
こんにちは世界、さようなら世界。これはペンです。 안녕하세요 세계 안녕히 세계
مرحبا بالعالم مرحبا بكم في العالم नमस्ते दुनिया नमस्ते 😀😀😀 🎉😀
"""
MERGES = 400


def byte_alphabet() -> dict[int, str]:
    """GPT-2's printable character for each byte (``bytes_to_unicode`` of its first release)."""
    printable = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    others = [byte for byte in range(256) if byte not in printable]
    return {byte: chr(byte) for byte in printable} | {byte: chr(256 + n) for n, byte in enumerate(others)}


ALPHABET = byte_alphabet()


def spell(token: bytes) -> str:
    """A token as ``tokenizer.json`` writes it."""
    return "".join(ALPHABET[byte] for byte in token)


def train(text: str, count: int) -> list[tuple[bytes, bytes]]:
    """The first ``count`` merges of byte pair encoding: each time the most frequent pair of neighbours, the first seen.

    A pair that makes a token which is there already is left out, so that the merges and the ranks of their tokens
    make a vocabulary each.
    """
    words = [[bytes([byte]) for byte in pretoken.encode()] for pretoken in naive.split(text)]
    merges: list[tuple[bytes, bytes]] = []
    made: set[bytes] = set()
    while len(merges) < count:
        pairs = Counter(pair for word in words for pair in pairwise(word))
        left, right = next(pair for pair, _ in pairs.most_common() if pair[0] + pair[1] not in made)
        merges.append((left, right))
        made.add(left + right)
        for word in words:
            i = 0
            while i + 1 < len(word):
                if (word[i], word[i + 1]) == (left, right):
                    word[i : i + 2] = [left + right]
                i += 1
    return merges


TRAINED = train(TEXT, MERGES)
TOKENS = [*sorted((bytes([byte]) for byte in range(256)), key=spell), *(left + right for left, right in TRAINED)]
ID_OF = {token: id for id, token in enumerate(TOKENS)}
END = "<|endoftext|>"
ADDED = {END: len(TOKENS)}


def tokenizer_json(**changes: object) -> dict:
    """The content of a ``tokenizer.json`` of the trained merges; ``changes`` replace entries of its ``"model"``."""
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {
                "id": id,
                "content": content,
                "single_word": False,
                "lstrip": False,
                "rstrip": False,
                "normalized": False,
                "special": True,
            }
            for content, id in ADDED.items()
        ],
        "normalizer": None,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
        "post_processor": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": False, "use_regex": True},
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": {spell(token): id for token, id in ID_OF.items()},
            "merges": [[spell(left), spell(right)] for left, right in TRAINED],
        }
        | changes,
    }


def by_ranks(*added: AddedToken) -> Tokenizer:
    """A new tokenizer of the trained tokens in tiktoken's way, with these added tokens or ``<|endoftext|>``."""
    tokens = AddedTokens(added or [AddedToken(content, id) for content, id in ADDED.items()])
    return Tokenizer(Parts(Vocabulary.from_ranks(TOKENS), tokens, RULE))


def by_merges() -> Tokenizer:
    """A new tokenizer of the trained merges in Hugging Face's way."""
    return Tokenizer.from_str(json.dumps(tokenizer_json()))


def without_bytes(missing: bytes) -> Tokenizer:
    """A new tokenizer of the trained merges in which these bytes have no token, nor what they are part of."""
    ids = {token: id for token, id in ID_OF.items() if not set(token) & set(missing)}
    merges = [pair for pair in TRAINED if b"".join(pair) in ids]
    return Tokenizer(Parts(Vocabulary.from_merges(ids, merges), AddedTokens([]), RULE))


def naive_by_ranks() -> naive.Tokenizer:
    """The oracle for :func:`by_ranks`."""
    return naive.Tokenizer.from_ranks(TOKENS, ADDED)


def naive_by_merges() -> naive.Tokenizer:
    """The oracle for :func:`by_merges`."""
    return naive.Tokenizer.from_merges(ID_OF, TRAINED, ADDED)
