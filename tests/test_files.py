"""Loading of what is no tokenizer.json: rank files, Tekken JSON, directories, the Hub, objects of other libraries."""

import base64
import json
import random
import sys
import types
from pathlib import Path

import pytest
import tiktoken
import tokenizers

import small
from conftest import TIKTOKEN_PATTERN, data_file
from numbatok import AddedToken, Tokenizer, VocabularyError
from numbatok.loading import files
from numbatok.loading.rank_file import parse_ranks, rank_file
from numbatok.patterns.rules import GPT2, Split

RANKS = rank_file(small.TOKENS, range(len(small.TOKENS)))


# --- rank files ---


@pytest.mark.parametrize("name", ["small.tiktoken", "tokenizer.model", "anything"])
def test_rank_file(tmp_path: Path, small_ranks, name: str) -> None:
    """The content tells what it is; what it does not say, the caller does."""
    path = tmp_path / name
    path.write_bytes(RANKS)
    tokenizer = Tokenizer.from_file(path, pattern=GPT2, special_tokens=small.ADDED)
    assert tokenizer == small_ranks
    assert tokenizer.name == str(path)
    assert Tokenizer.from_file(path, pattern=GPT2).special_tokens == {}


def test_rank_file_in_any_order(tmp_path: Path, small_ranks) -> None:
    """Lines need not be in order of rank; empty ones and CR LF are no matter."""
    lines = RANKS.splitlines()
    random.Random(1).shuffle(lines)
    (tmp_path / "a").write_bytes(b"\r\n".join(lines) + b"\r\n\r\n")
    assert Tokenizer.from_file(tmp_path / "a", pattern=GPT2, special_tokens=small.ADDED) == small_ranks


def test_rank_file_asks_for_its_pattern(tmp_path: Path) -> None:
    """Without it the error says what to pass."""
    (tmp_path / "a.tiktoken").write_bytes(RANKS)
    with pytest.raises(VocabularyError, match=r"a\.tiktoken: a rank file does not say .*: pass pattern=.*special_tok"):
        Tokenizer.from_file(tmp_path / "a.tiktoken")


@pytest.mark.parametrize(
    "line",
    [b"YQ==", b"YQ== x", b"!!! 3", b"YQ== 1 2", b"YQ= 1", b"Y 1", b"YQ== -1", b"\xff 1", b"YQ== -%d" % (1 << 70)],
)
def test_damaged_rank_files(line: bytes) -> None:
    """The line is named, or the id."""
    with pytest.raises(
        VocabularyError, match=r"line 2 is .*wanted base64, a space and a rank|id -[0-9]+ is not between"
    ):
        files.parse(b"YQ== 0\n" + line + b"\n", "", GPT2, None)


def test_impossible_rank_files() -> None:
    """Each broken rule is named."""
    cases = [
        (RANKS.split(b"\n", 1)[1], None, "is not a token"),
        (RANKS + RANKS.splitlines()[5] + b" 9999\n".replace(b" 9999", b""), None, "given to two tokens|twice"),
        (RANKS + b"YWFhYWFhYWFhYWFh 4294967296\n", None, "id 4294967296 is not between"),
        (RANKS + b"YWFhYWFhYWFhYWFh 99999999999999999999999\n", None, "id 9999999999.* is not between"),
        (RANKS, {"<a>": 5}, "id 5 is given to the token .* and to '<a>'"),
        (RANKS, {"": 5000}, "is empty"),
        (RANKS, {"<a>": -1}, "ids are 0 to"),
    ]
    for content, special_tokens, message in cases:
        with pytest.raises(VocabularyError, match=message):
            files.parse(content, "", GPT2, special_tokens)


def test_arguments_of_another_type(tmp_path: Path) -> None:
    """They are named."""
    (tmp_path / "a").write_bytes(RANKS)
    for arguments in ({"pattern": 5}, {"pattern": GPT2, "special_tokens": ["<a>"]}):
        with pytest.raises(TypeError, match=f"{list(arguments)[-1]} must be"):
            Tokenizer.from_file(tmp_path / "a", **arguments)
    for wrong in ({5: 5}, {"<a>": "5"}, {"<a>": True}):
        with pytest.raises(TypeError, match="wanted a str and its int id"):
            Tokenizer.from_file(tmp_path / "a", pattern=GPT2, special_tokens=wrong)
    with open(tmp_path / "a", "rb") as file:
        with pytest.raises(TypeError, match="PathLike object, not int"):
            Tokenizer.from_file(file.fileno(), pattern=GPT2)
        assert file.read() == RANKS  # it has not been read, nor closed


def test_rank_files_in_bulk_and_line_by_line() -> None:
    """The fast way of reading and the one that names lines agree."""
    tokens, ranks = parse_ranks(RANKS)
    assert (tokens, ranks) == (small.TOKENS, list(range(len(small.TOKENS))))
    assert parse_ranks(RANKS.replace(b"\n", b" \n")) == (tokens, ranks)


# --- what is no tokenizer file ---


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", r"not a tokenizer\.json"),
        (b"\x00" * 100, "it begins with"),
        (b"[1, 2]", "it begins with"),
        (b"\n\x0e\n\x05<unk>\x15\x00\x00", "SentencePiece model is not supported"),
        (b"\xef\xbb\xbf{}", r"it begins with a byte order mark \(BOM\)"),
        ('{"model": {}}'.encode("utf-16"), "it begins with"),
        (b'{"model": "\xff"}', "not UTF-8 text at byte 11"),
        (b'{"model": "\x00"}', "not a tokenizer.json"),
        (b'{"model": ' + b"[" * 200_000, "nested too deeply"),
        (b'{"a": ' + b"[" * 200_000, 'wanted an object with a "model"'),
        (b'{"vocab": {}, "merges": []}', 'wanted an object with a "model"'),
    ],
)
def test_no_tokenizer_file(tmp_path: Path, content: bytes, message: str) -> None:
    """One line says what is wrong and names the file."""
    path = tmp_path / "odd.json"
    path.write_bytes(content)
    with pytest.raises(VocabularyError, match=f"odd.json: .*{message}") as raised:
        Tokenizer.from_file(path)
    assert "\n" not in str(raised.value)
    assert len(str(raised.value)) < 400


def test_large_junk_is_refused_before_it_is_read(tmp_path: Path) -> None:
    """A hundred megabytes cost no more than their beginning, or than looking for the word that must be there."""
    path = tmp_path / "junk"
    for beginning in (b"junk", b'{"a": [' + b"[]," * 1000):
        with open(path, "wb") as file:
            file.write(beginning)
            file.truncate(100_000_000)
        with pytest.raises(VocabularyError, match=r"not a tokenizer\.json"):
            Tokenizer.from_file(path)


def test_json_takes_no_arguments_of_rank_files(tmp_path: Path) -> None:
    """They would have no effect."""
    (tmp_path / "tokenizer.json").write_text(json.dumps(small.tokenizer_json()))
    for arguments in ({"pattern": GPT2}, {"special_tokens": {}}):
        with pytest.raises(VocabularyError, match=f"{next(iter(arguments))} is for files that do not say it"):
            Tokenizer.from_file(tmp_path / "tokenizer.json", **arguments)


# --- Tekken ---


def tekken_json(**changes: object) -> dict:
    """A Tekken JSON of the small vocabulary with ten special tokens, and two tokens past the size that it asks for."""
    tokens = [*small.TOKENS, b"past", b"the size"]
    return {
        "config": {
            "pattern": GPT2,
            "num_vocab_tokens": len(tokens),
            "default_vocab_size": len(small.TOKENS) + 10,
            "default_num_special_tokens": 10,
            "version": "v3",
        },
        "vocab": [
            {"rank": rank, "token_bytes": base64.b64encode(token).decode(), "token_str": None}
            for rank, token in enumerate(tokens)
        ],
    } | changes


def load_tekken(**changes: object) -> Tokenizer:
    """The tokenizer of a changed Tekken JSON."""
    return Tokenizer(files.parse(json.dumps(tekken_json(**changes)).encode(), "", None, None))


def test_tekken(tiktoken_small) -> None:
    """Ids are ranks behind the special tokens; tokens past the size are left out."""
    tokenizer = load_tekken()
    assert tokenizer.vocab_size == len(small.TOKENS) + 10
    expected = [10 + id for id in tiktoken_small.encode_ordinary(small.TEXT)]
    assert tokenizer.encode(small.TEXT).tolist() == expected
    assert list(tokenizer.special_tokens)[:3] == ["<unk>", "<s>", "</s>"]
    assert tokenizer.special_tokens["[TOOL_CALLS]"] == 9


def test_tekken_that_lists_its_special_tokens() -> None:
    """Those are taken; ids that are not listed have a name all the same."""
    listed = [{"rank": 1, "token_str": "<bos>", "is_control": True}, {"rank": 0, "token_str": "<none>"}]
    assert list(load_tekken(special_tokens=listed).special_tokens)[:3] == ["<none>", "<bos>", "<SPECIAL_2>"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"config": None}, "config must be an object"),
        ({"config": {**tekken_json()["config"], "pattern": None}}, "pattern must be a string"),
        ({"config": {**tekken_json()["config"], "default_vocab_size": 5}}, "config wants 5 tokens, 10 of them special"),
        ({"config": {**tekken_json()["config"], "default_vocab_size": 9999}}, "config wants 9999 tokens"),
        ({"config": {**tekken_json()["config"], "default_num_special_tokens": -1}}, "config wants"),
        ({"vocab": {}}, "vocab must be a list"),
        ({"vocab": [5] * 700}, "vocab has 5; wanted an object with rank"),
        ({"vocab": tekken_json()["vocab"][:1] * 700}, "rank 0 is given to two tokens"),
        ({"vocab": tekken_json()["vocab"][1:]}, "no token has rank 0"),
        ({"vocab": [{"rank": 0, "token_bytes": "?"}] * 700}, "token_bytes of rank 0 are not base64"),
        ({"special_tokens": 5}, "special_tokens must be a list"),
        ({"special_tokens": [{"rank": 10, "token_str": "<a>"}]}, "a rank of its own below 10"),
    ],
)
def test_damaged_tekken(changes: dict, message: str) -> None:
    """What is wrong is named."""
    with pytest.raises(VocabularyError, match=message):
        load_tekken(**changes)


def test_published_tekken() -> None:
    """Mistral's file: the reference is tiktoken, as in mistral-common, with a thousand ids before."""
    parts = files.parse(data_file("vocab/mistral/tekken_240911.json"), "tekken", None, None)
    assert len(parts.vocabulary) == 130_072
    assert parts.vocabulary.id_of[b"\x00"] == 1000
    assert parts.vocabulary.id_of[b" the"] > 1256
    assert [token.id for token in parts.added_tokens] == list(range(1000))
    assert parts.rule[0].pattern.endswith(r"\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")


# --- directories ---


def write_pair(folder: Path, **beside: object) -> None:
    """GPT-2's two files, and others by their names without ``.json``."""
    model = small.tokenizer_json()["model"]
    (folder / "vocab.json").write_text(json.dumps(model["vocab"]), encoding="utf-8")
    lines = ["#version: 0.2", *(" ".join(merge) for merge in model["merges"]), ""]
    (folder / "merges.txt").write_text("\n".join(lines), encoding="utf-8")
    for name, value in beside.items():
        (folder / f"{name}.json").write_text(json.dumps(value), encoding="utf-8")


def test_vocab_and_merges(tmp_path: Path, small_merges) -> None:
    """They are GPT-2's way: the byte alphabet and its pattern; special tokens come from the caller."""
    write_pair(tmp_path)
    assert Tokenizer.from_file(tmp_path, special_tokens=small.ADDED) == small_merges
    assert Tokenizer.from_file(tmp_path).special_tokens == {}
    assert files.load(tmp_path, pattern=r"\p{L}+").rule == (Split(r"\p{L}+"),)


def test_special_tokens_beside_vocab_and_merges(tmp_path: Path) -> None:
    """They come from the three files of transformers, those of the caller first."""
    vocab = small.ID_OF
    write_pair(
        tmp_path,
        tokenizer_config={
            "tokenizer_class": "GPT2Tokenizer",
            "add_prefix_space": True,
            "added_tokens_decoder": {"700": {"content": "<m>", "lstrip": True, "special": True}},
        },
        special_tokens_map={
            "bos_token": {"content": "re", "lstrip": False},
            "eos_token": "<e>",
            "pad_token": "<absent>",
            "additional_special_tokens": ["<e>", "<m>"],
        },
        added_tokens={"<e>": 701, "<n>": 702},
    )
    parts = files.load(tmp_path, special_tokens={"<n>": 702})
    assert parts.prefix_space
    assert list(parts.added_tokens) == [
        AddedToken("re", vocab[b"re"]),
        AddedToken("<m>", 700, lstrip=True),
        AddedToken("<e>", 701),
        AddedToken("<n>", 702),
    ]
    assert not files.load(tmp_path).added_tokens[3].special


@pytest.mark.parametrize(
    ("beside", "message"),
    [
        ({"tokenizer_config": {"tokenizer_class": "RobertaTokenizer"}}, "RobertaTokenizer.* without pattern="),
        ({"tokenizer_config": {"add_bos_token": True}}, "add_bos_token is not supported"),
        ({"tokenizer_config": {"added_tokens_decoder": {"x": {"content": "<a>"}}}}, "added token x: wanted an id"),
        ({"tokenizer_config": {"added_tokens_decoder": {"5": "<a>"}}}, "added token 5 must be an object"),
        ({"tokenizer_config": {"added_tokens_decoder": {"5": {"content": "<a>"}}}}, "id 5 is given to the token"),
        ({"tokenizer_config": []}, "tokenizer_config.json must be an object"),
        ({"special_tokens_map": {"bos_token": 5}}, "bos_token is 5; wanted a token"),
        ({"added_tokens": {"<a>": "5"}}, "'<a>' has \"5\"; wanted an id"),
        ({"vocab": []}, "vocab.json must be an object"),
    ],
)
def test_damaged_directories(tmp_path: Path, beside: dict, message: str) -> None:
    """The file and what is wrong in it are named."""
    write_pair(tmp_path, **beside)
    with pytest.raises(VocabularyError, match=f"{tmp_path.name}: .*{message}"):
        Tokenizer.from_file(tmp_path)


def test_the_preferred_file_of_a_directory(tmp_path: Path, small_merges, small_ranks) -> None:
    """tokenizer.json before tekken.json before vocab.json before a rank file."""
    (tmp_path / "a.tiktoken").write_bytes(RANKS)
    (tmp_path / "tokenizer_config.json").write_text(
        json.dumps({"added_tokens_decoder": {str(id): {"content": content} for content, id in small.ADDED.items()}})
    )
    assert Tokenizer.from_file(tmp_path, pattern=GPT2) == small_ranks
    write_pair(tmp_path)
    assert Tokenizer.from_file(tmp_path).name == str(tmp_path)
    (tmp_path / "tekken.json").write_text(json.dumps(tekken_json()))
    assert Tokenizer.from_file(tmp_path).name.endswith("tekken.json")
    (tmp_path / "tokenizer.json").write_text(json.dumps(small.tokenizer_json()))
    assert Tokenizer.from_file(tmp_path) == small_merges
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(VocabularyError, match=r"tokenizer\.json: not a tokenizer\.json"):
        Tokenizer.from_file(tmp_path)


def test_published_vocab_and_merges(tmp_path: Path, gpt2) -> None:
    """GPT-2's two files give GPT-2."""
    for name in ("vocab.json", "merges.txt"):
        (tmp_path / name).write_bytes(data_file(f"vocab/gpt2/{name}"))
    tokenizer = Tokenizer.from_file(tmp_path, special_tokens={"<|endoftext|>": 50256})
    assert tokenizer.encode(small.TEXT).tolist() == gpt2.encode(small.TEXT).tolist()


# --- the Hub ---

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def hub(monkeypatch, tmp_path: Path) -> Path:
    """A cache of the Hub with the repository ``someone/model`` and no files in it, and no network."""
    constants = pytest.importorskip("huggingface_hub.constants")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    repository = tmp_path / "models--someone--model"
    (repository / "refs").mkdir(parents=True)
    (repository / "refs" / "main").write_text(COMMIT)
    folder = repository / "snapshots" / COMMIT
    folder.mkdir(parents=True)
    return folder


def test_from_the_cache_of_the_hub(hub: Path, small_merges) -> None:
    """The whole file is preferred, then the others; the name is the repository's."""
    with pytest.raises(OSError, match="no tokenizer of 'someone/model' is in the local cache"):
        Tokenizer.from_pretrained("someone/model", local_files_only=True)
    write_pair(hub, special_tokens_map={"eos_token": "re"})
    tokenizer = Tokenizer.from_pretrained("someone/model", local_files_only=True)
    assert tokenizer.special_tokens == {"re": small.ID_OF[b"re"]}
    (hub / "tokenizer.json").write_text(json.dumps(small.tokenizer_json()))
    for arguments in ({}, {"local_files_only": True}, {"revision": COMMIT}, {"revision": "main"}):
        tokenizer = Tokenizer.from_pretrained("someone/model", **arguments)
        assert tokenizer == small_merges
        assert tokenizer.name == "someone/model"
    with pytest.raises(OSError, match="no tokenizer of 'someone/other'"):
        Tokenizer.from_pretrained("someone/other")


def fake_hub(monkeypatch, folder: Path, calls: list[dict]) -> None:
    """A ``huggingface_hub`` whose repository is a folder."""
    module, errors = types.ModuleType("huggingface_hub"), types.ModuleType("huggingface_hub.errors")

    class EntryNotFoundError(Exception):
        pass

    class LocalEntryNotFoundError(EntryNotFoundError):
        pass

    def hf_hub_download(name: str, file: str, **arguments: object) -> str:
        calls.append({"name": name, "file": file, **arguments})
        if not (folder / file).is_file():
            raise EntryNotFoundError(file)
        return str(folder / file)

    errors.EntryNotFoundError, errors.LocalEntryNotFoundError = EntryNotFoundError, LocalEntryNotFoundError
    module.hf_hub_download, module.errors = hf_hub_download, errors
    monkeypatch.setitem(sys.modules, "huggingface_hub", module)
    monkeypatch.setitem(sys.modules, "huggingface_hub.errors", errors)


def test_from_the_hub(monkeypatch, tmp_path: Path, small_merges) -> None:
    """Arguments reach the Hub; no file is asked for that is not needed."""
    calls: list[dict] = []
    fake_hub(monkeypatch, tmp_path, calls)
    with pytest.raises(VocabularyError, match="repository 'someone/model' has no tokenizer: wanted "):
        Tokenizer.from_pretrained("someone/model")
    (tmp_path / "tokenizer.json").write_text(json.dumps(small.tokenizer_json()))
    calls.clear()
    assert Tokenizer.from_pretrained("someone/model", revision="v1", token="secret") == small_merges
    assert calls == [
        {"name": "someone/model", "file": "tokenizer.json", "revision": "v1", "token": "secret"}
        | {"local_files_only": False}
    ]


def test_without_the_hub(monkeypatch, tmp_path: Path, small_merges) -> None:
    """A local directory needs no package; for all else the error says which one is wanted."""
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    (tmp_path / "tokenizer.json").write_text(json.dumps(small.tokenizer_json()))
    assert Tokenizer.from_pretrained(tmp_path) == small_merges
    with pytest.raises(ImportError, match=r"'someone/model' is no directory.*pip install numbatok\[hub\]"):
        Tokenizer.from_pretrained("someone/model")


# --- objects of other libraries ---


def test_from_huggingface(tokenizers_small, small_merges) -> None:
    """A Tokenizer is taken over as it is, settings that were made on it included."""
    assert Tokenizer.from_huggingface(tokenizers_small) == small_merges
    changed = tokenizers.Tokenizer.from_str(tokenizers_small.to_str())
    changed.add_special_tokens(["<new>"])
    assert Tokenizer.from_huggingface(changed).special_tokens["<new>"] == len(small.TOKENS) + 1
    changed.enable_truncation(5)
    with pytest.raises(VocabularyError, match=r"truncation .* is not supported"):
        Tokenizer.from_huggingface(changed)


def test_from_transformers(tokenizers_small, small_merges) -> None:
    """A fast tokenizer gives the one inside it, without the truncation and padding of its last call."""
    inner = tokenizers.Tokenizer.from_str(tokenizers_small.to_str())
    inner.enable_truncation(5)
    inner.enable_padding()
    tokenizer = Tokenizer.from_huggingface(types.SimpleNamespace(backend_tokenizer=inner, name_or_path="someone/model"))
    assert tokenizer == small_merges
    assert tokenizer.name == "someone/model"
    for wrong in (None, "gpt2", types.SimpleNamespace(backend_tokenizer=None)):
        with pytest.raises(TypeError, match=r"tokenizer must be a tokenizers\.Tokenizer or a fast tokenizer of"):
            Tokenizer.from_huggingface(wrong)


def test_from_tiktoken(tiktoken_small, small_ranks) -> None:
    """An Encoding, or its ranks with what they lack."""
    tokenizer = Tokenizer.from_tiktoken(tiktoken_small)
    assert tokenizer == small_ranks
    assert tokenizer.name == "small"
    ranks = Tokenizer.from_tiktoken(small.ID_OF, pattern=TIKTOKEN_PATTERN, special_tokens=small.ADDED, name="mine")
    assert ranks == small_ranks
    assert ranks.name == "mine"
    assert Tokenizer.from_tiktoken(tiktoken_small, special_tokens={}).special_tokens == {}
    with pytest.raises(VocabularyError, match="pass pattern="):
        Tokenizer.from_tiktoken(small.ID_OF)
    for wrong in ("gpt2", None, tiktoken):
        with pytest.raises(TypeError, match=r"encoding must be a tiktoken\.Encoding or a mapping"):
            Tokenizer.from_tiktoken(wrong)
    for wrong in ({"a": 5}, {b"a": "5"}):
        with pytest.raises(TypeError, match="wanted bytes and their int rank"):
            Tokenizer.from_tiktoken(wrong, pattern=GPT2)
