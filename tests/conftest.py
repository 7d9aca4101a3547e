"""Fixtures: tokenizers, their references, and the optional test data.

Test data is found through the environment variable ``NUMBATOK_TEST_DATA``, or beside the checkout in
``../shared/data``. Tests that need it are skipped, with the reason, where it is absent; all else is built in the tests.
"""

import json
import lzma
import os
from pathlib import Path

import pytest
import tiktoken
import tokenizers
from hypothesis import settings

import naive
import numbatok
import small
from numbatok.loading.embedded import load_ranks

# Hypothesis keeps no files: a checkout may be read-only. A failure prints what reproduces it.
settings.register_profile("numbatok", deadline=None, database=None, print_blob=True)
settings.load_profile("numbatok")

TEST_DATA = Path(os.environ.get("NUMBATOK_TEST_DATA") or Path(__file__).resolve().parents[2] / "shared" / "data")
TIKTOKEN_PATTERN = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s"


def data_file(name: str) -> bytes:
    """The content of a file of the test data, unpacked if only ``name.xz`` is there; skips the test if neither is."""
    path = TEST_DATA / name
    if path.is_file():
        return path.read_bytes()
    packed = path.with_name(path.name + ".xz")
    if packed.is_file():
        return lzma.decompress(packed.read_bytes())
    pytest.skip(f"no test data: {path} is not there (NUMBATOK_TEST_DATA says where to look)")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test with the argument ``corpus_text`` runs once for each file of the small corpus."""
    if "corpus_text" in metafunc.fixturenames:
        folder = TEST_DATA / "corpus-small"
        names = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.txt"))
        metafunc.parametrize("corpus_text", names or ["english.txt"], indirect=True)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The tests of each vocabulary of the test data run one after the other, so that it is loaded once for all."""

    def vocabulary(item: pytest.Item) -> str:
        parameters = item.callspec.params if hasattr(item, "callspec") else {}
        return str(getattr(parameters.get("row"), "name", ""))

    items.sort(key=vocabulary)


@pytest.fixture
def corpus_text(request: pytest.FixtureRequest) -> str:
    """The text of one file of the small corpus; documents are separated by a line ``<|endoftext|>``."""
    return data_file(f"corpus-small/{request.param}").decode()


@pytest.fixture(scope="session")
def gpt2() -> numbatok.Tokenizer:
    """GPT-2 as numbatok has it."""
    return numbatok.get_encoding("gpt2")


@pytest.fixture(scope="session")
def naive_gpt2() -> naive.Tokenizer:
    """GPT-2 as the oracle has it."""
    tokens, _ = load_ranks("r50k_base")
    return naive.Tokenizer.from_ranks(tokens, {"<|endoftext|>": 50256})


@pytest.fixture(scope="session")
def tiktoken_gpt2() -> tiktoken.Encoding:
    """GPT-2 as tiktoken has it, without the network."""
    return tiktoken.Encoding(
        "gpt2",
        pat_str=TIKTOKEN_PATTERN,
        mergeable_ranks=dict(zip(*load_ranks("r50k_base"), strict=True)),
        special_tokens={"<|endoftext|>": 50256},
    )


@pytest.fixture(scope="session")
def gpt2_json() -> str:
    """The content of GPT-2's ``tokenizer.json``."""
    return data_file("vocab/gpt2_hf/tokenizer.json").decode()


@pytest.fixture(scope="session")
def tokenizers_gpt2(gpt2_json: str) -> tokenizers.Tokenizer:
    """GPT-2 as Hugging Face has it."""
    return tokenizers.Tokenizer.from_str(gpt2_json)


@pytest.fixture(scope="session")
def small_ranks() -> numbatok.Tokenizer:
    """The small vocabulary by ranks."""
    return small.by_ranks()


@pytest.fixture(scope="session")
def small_merges() -> numbatok.Tokenizer:
    """The small vocabulary by merges."""
    return small.by_merges()


@pytest.fixture(scope="session")
def naive_ranks() -> naive.Tokenizer:
    """The oracle for ``small_ranks``."""
    return small.naive_by_ranks()


@pytest.fixture(scope="session")
def naive_merges() -> naive.Tokenizer:
    """The oracle for ``small_merges``."""
    return small.naive_by_merges()


@pytest.fixture(scope="session")
def tiktoken_small() -> tiktoken.Encoding:
    """The small vocabulary as tiktoken has it."""
    return tiktoken.Encoding(
        "small", pat_str=TIKTOKEN_PATTERN, mergeable_ranks=small.ID_OF, special_tokens=dict(small.ADDED)
    )


@pytest.fixture(scope="session")
def tokenizers_small() -> tokenizers.Tokenizer:
    """The small vocabulary as Hugging Face has it."""
    return tokenizers.Tokenizer.from_str(json.dumps(small.tokenizer_json()))
