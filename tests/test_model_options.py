"""The options of a merge list's model, against ``tokenizers.models.BPE`` and the oracle."""

import itertools
import json
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import models

import naive
import small
from conftest import data_file
from numbatok import Tokenizer, VocabularyError
from numbatok.added_tokens import AddedTokens
from numbatok.kernels import dtypes, merge
from numbatok.loading import byte_level
from numbatok.parts import Parts
from numbatok.vocabulary import Options, Vocabulary
from support import address_of, array_of, engine_of, new_scratch

ALL_BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
CHARACTERS = ["a", "b", "é", "ß", "中", "文", "😀", "\n", "▁", "\x80", "\u07ff", "\u0800", "\uffff", "\U0010ffff"]


def tokenizer_of(
    ids: Mapping[str, int], merges: Sequence[tuple[str, str]], unit: str = "character", **options: Any
) -> Tokenizer:
    """A tokenizer whose model's strings are these; options as ``models.BPE`` names them."""
    to_bytes = byte_level.to_bytes if unit == "byte" else str.encode
    texts = {"unk": "unk_token", "prefix": "continuing_subword_prefix", "suffix": "end_of_word_suffix"}
    given = {ours: to_bytes(options.pop(theirs)) for ours, theirs in texts.items() if options.get(theirs) is not None}
    for theirs in texts.values():
        options.pop(theirs, None)
    vocabulary = Vocabulary.from_merges(
        {to_bytes(token): id for token, id in ids.items()},
        [(to_bytes(left), to_bytes(right)) for left, right in merges],
        unit=unit,
        whole_first=options.pop("ignore_merges", False),
        **given,
        **options,
    )
    return Tokenizer(Parts(vocabulary, AddedTokens([]), small.RULE))


class Model:
    """Calls the merging kernel of a tokenizer with one scratch."""

    def __init__(self, tokenizer: Tokenizer, seed: int = 1) -> None:
        self._engine = engine_of(tokenizer)
        self._scratch = new_scratch(tokenizer)
        self._scratch.record[dtypes.WORK_RANDOM] = seed

    def ids(self, pretoken: bytes) -> list[int]:
        """Ids of one pretoken."""
        needed = len(pretoken) * int(self._engine._view[dtypes.VIEW_IDS_PER_BYTE])
        if needed > len(self._scratch._arrays[dtypes.WORK_SYMBOLS]):
            self._scratch._set_merge_symbols(needed)
        text = array_of(pretoken + bytes(16))
        kernel = merge.merge_pretoken if self._engine._vocabulary.is_plain else merge.merge_pretoken_by_options
        count = kernel(address_of(self._engine._view), self._scratch.address, address_of(text), len(pretoken))
        assert count >= 0
        return self._scratch._arrays[dtypes.WORK_SYMBOLS][:count].tolist()


def reference_of(ids: Mapping[str, int], merges: Sequence[tuple[str, str]], options: Mapping[str, Any]) -> models.BPE:
    """The reference's model; it takes no None."""
    return models.BPE(vocab=ids, merges=merges, **{name: value for name, value in options.items() if value is not None})


def reference_ids(model: models.BPE, pretoken: str) -> list[int]:
    """Ids that ``tokenizers`` gives one pretoken."""
    return [token.id for token in model.tokenize(pretoken)]


def random_model(rng: random.Random, options: dict[str, Any]) -> tuple[dict[str, int], list[tuple[str, str]]]:
    """Ids and merges over a few characters, with the prefix and suffix where a pretoken may have them."""
    prefix, suffix = options.get("continuing_subword_prefix") or "", options.get("end_of_word_suffix") or ""
    characters = rng.sample(CHARACTERS, rng.choice([1, 2, 4, 8]))
    tokens = [
        begin + character + end
        for character in characters
        for begin in dict.fromkeys(("", prefix))
        for end in dict.fromkeys(("", suffix))
        if rng.random() < 0.8
    ]
    if options.get("byte_fallback"):
        tokens += ALL_BYTES if rng.random() < 0.6 else rng.sample(ALL_BYTES, 200)
    if options.get("unk_token"):
        tokens.append(options["unk_token"])
    if rng.random() < 0.2 and prefix:
        tokens.append(prefix)  # a merge with it makes its own left part
    tokens = list(dict.fromkeys(tokens)) or ["a"]
    merges = []
    parts = list(tokens)
    for _ in range(rng.randint(0, 60)):
        left, right = rng.choice(parts), rng.choice(parts)
        if (suffix and left.endswith(suffix)) or (prefix and not right.startswith(prefix)) or len(left + right) > 60:
            continue
        merges.append((left, right))
        parts.append(left + right[len(prefix) :])
    tokens = list(dict.fromkeys(tokens + parts))
    return dict(zip(tokens, rng.sample(range(1 << 16), len(tokens)), strict=True)), merges


def random_pretoken(rng: random.Random, ids: Mapping[str, int], longest: int) -> str:
    """Characters that the vocabulary has, and some that it has not."""
    known = [token for token in ids if len(token) <= 3]
    return "".join(rng.choices([*known, *CHARACTERS], k=rng.randint(1, longest)))


EVERY_OPTION = [
    {
        "unk_token": unk,
        "fuse_unk": fuse,
        "byte_fallback": fallback,
        "continuing_subword_prefix": prefix,
        "end_of_word_suffix": suffix,
        "ignore_merges": whole,
    }
    for unk, fuse in [(None, False), ("<unk>", False), ("<unk>", True)]
    for fallback, prefix, suffix, whole in itertools.product(
        [False, True], [None, "##"], [None, "</w>", "é"], [False, True]
    )
]


@pytest.mark.parametrize("seed", range(8))
def test_every_combination_by_character(seed: int) -> None:
    """Each combination of the options, on models and pretokens of every shape, for reference, oracle and kernel."""
    rng = random.Random(seed)
    for options in EVERY_OPTION:
        ids, merges = random_model(rng, options)
        reference = reference_of(ids, merges, options)
        model = Model(tokenizer_of(ids, merges, **options))
        oracle = naive.Model(ids, merges, **options)
        for longest in (1, 2, 5, 5, 20, 90):
            pretoken = random_pretoken(rng, ids, longest)
            expected = reference_ids(reference, pretoken)
            assert model.ids(pretoken.encode()) == expected, (options, pretoken)
            if ("##" not in ids) or options["continuing_subword_prefix"] is None:
                assert oracle.encode(pretoken) == expected, (options, pretoken)


@pytest.mark.parametrize("seed", range(8))
def test_every_combination_by_byte(seed: int) -> None:
    """The same where the model sees the byte alphabet, some of whose characters it lacks."""
    rng = random.Random(100 + seed)
    for options in EVERY_OPTION:
        options = {**options, "end_of_word_suffix": options["end_of_word_suffix"] and "</w>"}
        prefix, suffix = options["continuing_subword_prefix"] or "", options["end_of_word_suffix"] or ""
        letters = rng.sample(list(small.ALPHABET.values()), rng.choice([1, 3, 50, 255, 256]))
        tokens = [
            begin + letter + end
            for letter in letters
            for begin in dict.fromkeys(("", prefix))
            for end in dict.fromkeys(("", suffix))
        ]
        tokens += ALL_BYTES if options["byte_fallback"] else []
        tokens += [options["unk_token"]] if options["unk_token"] else []
        tokens = list(dict.fromkeys(tokens))
        pairs = [(rng.choice(tokens[:50]), rng.choice(tokens[:50])) for _ in range(30)]
        merges = [
            (left, right)
            for left, right in pairs
            if right.startswith(prefix) and right != prefix and not (suffix and left.endswith(suffix))
        ]
        tokens = list(dict.fromkeys(tokens + [left + right[len(prefix) :] for left, right in merges]))
        ids = dict(zip(tokens, rng.sample(range(1 << 16), len(tokens)), strict=True))
        reference = reference_of(ids, merges, options)
        model = Model(tokenizer_of(ids, merges, "byte", **options))
        known = [byte_level.to_bytes(letter) for letter in letters]
        for longest in (1, 2, 5, 20, 100):
            pretoken = b"".join(rng.choices([*known, *known, b"z", b"\xff", b" "], k=rng.randint(1, longest)))
            expected = reference_ids(reference, byte_level.spell(pretoken))
            assert model.ids(pretoken) == expected, (options, pretoken)


@given(st.text(max_size=80), st.sampled_from(EVERY_OPTION), st.integers(0, 1 << 32))
def test_any_text(text: str, options: dict[str, Any], seed: int) -> None:
    """Any characters at all, most of them unknown."""
    if not text:
        return
    rng = random.Random(seed)
    ids, merges = random_model(rng, options)
    reference = reference_of(ids, merges, options)
    assert Model(tokenizer_of(ids, merges, **options)).ids(text.encode()) == reference_ids(reference, text)


@pytest.mark.parametrize("options", EVERY_OPTION, ids=str)
def test_through_the_cache(options: dict[str, Any]) -> None:
    """Whole texts, twice: pretokens with no ids, and with more ids than bytes, through cache, arena and output."""
    rng = random.Random(5)
    ids, merges = random_model(rng, options)
    reference = reference_of(ids, merges, options)
    tokenizer = tokenizer_of(ids, merges, **options)
    text = " ".join(random_pretoken(rng, ids, 12) for _ in range(300)) + "文" * 300 + " x" + "q" * 20_000
    expected = [id for pretoken in naive.split(text) for id in reference_ids(reference, pretoken)]
    for _ in range(2):
        assert tokenizer.encode(text).tolist() == expected
        assert tokenizer.encode_batch([text, "", text]).ids.tolist() == 2 * expected
        assert tokenizer.count(text) == len(expected)
