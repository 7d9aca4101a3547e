"""The encodings inside the package: complete, as published, and noticed when damaged."""

import base64
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tiktoken.model
import tiktoken_ext.openai_public

import numbatok
import small
from numbatok import VocabularyError, encoding_name_for_model, get_encoding
from numbatok.loading import embedded
from numbatok.loading.rank_file import rank_file
from numbatok.patterns.rules import GPT2

SIZES = {"r50k_base": 50256, "p50k_base": 50280, "cl100k_base": 100256, "o200k_base": 199998}


@pytest.mark.parametrize("name", SIZES)
def test_embedded_ranks_are_the_published_ones(name: str) -> None:
    """The rank file made anew has the published SHA-256, as loading checks; all tokens are there."""
    tokens, ranks = embedded.load_ranks(name)
    assert len(set(tokens)) == len(ranks) == SIZES[name]
    assert ranks == sorted(set(range(SIZES[name] + 1)) - {50256 if name == "p50k_base" else SIZES[name]})
    assert rank_file(tokens, ranks) == embedded.load_table(name).file()
    assert {bytes([byte]) for byte in range(256)} <= set(tokens)


def test_hashes_and_encodings_are_tiktokens(monkeypatch) -> None:
    """The table of encodings is that of the reference: ranks by their SHA-256, patterns, special tokens."""
    used: list[str] = []

    def load(url: str, expected_hash: str) -> dict[bytes, int]:
        used.append(expected_hash)
        return {}

    monkeypatch.setattr(tiktoken_ext.openai_public, "load_tiktoken_bpe", load)
    for name, encoding in embedded.ENCODINGS.items():
        if name == "gpt2":  # published in an older form, of the same content
            assert encoding == embedded.ENCODINGS["r50k_base"]
            continue
        published = tiktoken_ext.openai_public.ENCODING_CONSTRUCTORS[name]()
        assert used.pop() == embedded.PUBLISHED[encoding.ranks]
        assert encoding.special_tokens == published["special_tokens"]
        if encoding.pattern != GPT2:  # as possessive there
            assert encoding.pattern == published["pat_str"]
    assert embedded.ENCODINGS.keys() == tiktoken_ext.openai_public.ENCODING_CONSTRUCTORS.keys()


def test_size_in_the_wheel() -> None:
    """All of them together stay small."""
    assert sum(path.stat().st_size for path in embedded.DATA.iterdir()) < 5e6


def test_a_damaged_package_is_noticed(monkeypatch, tmp_path: Path) -> None:
    """Any change of the embedded file is an error that says what to do."""
    content = (embedded.DATA / "r50k_base.z").read_bytes()
    monkeypatch.setattr(embedded, "DATA", tmp_path)
    rng = random.Random(1)
    table = embedded.unpack(content)
    tokens = table.tokens()
    tokens[1000], tokens[1001] = tokens[1001], tokens[1000]
    exchanged = embedded.pack(rank_file(tokens, table.ranks.tolist()))
    for damaged in (b"", content[:1000], content[:-1], rng.randbytes(100), exchanged):
        (tmp_path / "r50k_base.z").write_bytes(damaged)
        with pytest.raises(VocabularyError, match=r"r50k_base is damaged.*install numbatok anew"):
            get_encoding("gpt2")


def test_packing_is_lossless() -> None:
    """A rank file with gaps comes back byte for byte; one that can't is refused."""
    content = b"".join(base64.b64encode(token) + b" %d\n" % (3 * n) for n, token in enumerate(small.TOKENS))
    table = embedded.unpack(embedded.pack(content))
    assert table.tokens() == small.TOKENS
    assert table.file() == rank_file(table.tokens(), table.ranks.tolist()) == content
    for wrong in (content + b"\n", b"YQ== 5\nYg== 4\n", b"YQ== 5\nYg== 5\n", base64.b64encode(b"a" * 256) + b" 0\n"):
        with pytest.raises(VocabularyError, match="can be packed"):
            embedded.pack(wrong)


def test_rank_files_of_all_widths() -> None:
    """Ranks of one digit to ten, tokens of every length up to 255."""
    rng = random.Random(2)
    tokens = [rng.randbytes(1 + n % 255) for n in range(600)]
    ranks = sorted({10**power + n for power in range(10) for n in range(-1, 59)})[: len(tokens)]
    content = rank_file(tokens[: len(ranks)], ranks)
    assert embedded.unpack(embedded.pack(content)).file() == content


def test_unknown_encoding() -> None:
    """The ones there are, are named."""
    with pytest.raises(ValueError, match="unknown encoding 'gpt5'; embedded are cl100k_base, gpt2, o200k_base"):
        get_encoding("gpt5")


def test_models() -> None:
    """Every model's encoding is the reference's, whole names and beginnings, and those that only look alike."""
    names = [*tiktoken.model.MODEL_TO_ENCODING, *tiktoken.model.MODEL_PREFIX_TO_ENCODING]
    for name in names:
        for variant in (name, name + "x", name + "-2030", name[:-1], name.upper(), "ft:" + name):
            try:
                expected = tiktoken.model.encoding_name_for_model(variant)
            except KeyError:
                with pytest.raises(KeyError, match="no encoding is known for the model"):
                    encoding_name_for_model(variant)
            else:
                assert encoding_name_for_model(variant) == expected


@pytest.mark.parametrize("wrong", [None, b"gpt2", 5, [], {"gpt2"}])
@pytest.mark.parametrize("function", [get_encoding, encoding_name_for_model, numbatok.encoding_for_model])
def test_names_are_str(function: Callable[[Any], object], wrong: object) -> None:
    """What is no name at all is told so, hashable or not."""
    with pytest.raises(TypeError, match=f"name must be str, not {type(wrong).__name__}$"):
        function(wrong)


def test_encoding_for_model() -> None:
    """A model's tokenizer is its encoding's."""
    assert numbatok.encoding_for_model("gpt2") == get_encoding("gpt2")
    with pytest.raises(KeyError):
        numbatok.encoding_for_model("gpt-0")
