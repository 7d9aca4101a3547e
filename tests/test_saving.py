"""Saving: the file is one that tokenizers loads, and both give the ids that the saved tokenizer gives."""

import json
import os
import random
import re
from pathlib import Path

import pytest
import tiktoken
import tokenizers

import small
import texts
from conftest import data_file
from numbatok import AddedToken, Tokenizer, VocabularyError, get_encoding
from numbatok.added_tokens import AddedTokens
from numbatok.loading import embedded
from numbatok.loading.dialect import to_oniguruma
from numbatok.loading.saving import dumps
from numbatok.parts import Parts
from numbatok.patterns.rules import GPT2, Split
from numbatok.templates import Special, Template, Text
from numbatok.vocabulary import Vocabulary


def saved(tokenizer: Tokenizer, folder: Path) -> tuple[Tokenizer, tokenizers.Tokenizer]:
    """What numbatok, and tokenizers, load from the file that the tokenizer is saved in."""
    path = folder / "tokenizer.json"
    tokenizer.save(path)
    return Tokenizer.from_file(path), tokenizers.Tokenizer.from_file(str(path))


SAMPLES = [
    small.TEXT,
    "",
    " ",
    "a<|endoftext|>b",
    "\n\n  x\n",
    "'s'll 1234567 é",
    "\U0010ffff\x00",
    "aaaaaaaaaaaaaaaaa",
]


def test_ranks(tmp_path: Path, small_ranks) -> None:
    """A rank file's rule becomes merges: every way to make a token of two."""
    again, reference = saved(small_ranks, tmp_path)
    rng = random.Random(1)
    for text in [*SAMPLES, *(texts.random_text(rng, 200) for _ in range(200))]:
        assert small_ranks.encode(text).tolist() == again.encode(text).tolist() == reference.encode(text).ids
    assert again.special_tokens == small_ranks.special_tokens
    assert again.decode(again.encode(small.TEXT)) == small.TEXT
    assert Tokenizer.from_str(dumps(again._parts)) == again


def test_merges(tmp_path: Path, small_merges) -> None:
    """A tokenizer.json comes back as it was."""
    again, reference = saved(small_merges, tmp_path)
    assert again == small_merges
    assert json.loads(reference.to_str()) == json.loads(
        tokenizers.Tokenizer.from_str(json.dumps(small.tokenizer_json())).to_str()
    )


def test_sections_come_back_as_they_were(tmp_path: Path) -> None:
    """The normalizer, the options of the pre-tokenizer, the template and the decoder are those of the file."""
    settings = {
        **small.tokenizer_json(dropout=0.5, ignore_merges=True),
        "normalizer": {"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "Lowercase"}]},
        "pre_tokenizer": {
            "type": "ByteLevel",
            "add_prefix_space": True,
            "trim_offsets": False,
            "use_regex": True,
        },
        "post_processor": {
            "type": "RobertaProcessing",
            "sep": ["</s>", 2],
            "cls": ["<s>", 0],
            "trim_offsets": True,
            "add_prefix_space": False,
        },
    }
    first = len(small.TOKENS)
    flags = {"single_word": True, "lstrip": True, "rstrip": True, "normalized": True, "special": False}
    settings["added_tokens"].append({"id": first + 1, "content": "<all>", **flags})
    again, _ = saved(Tokenizer.from_str(json.dumps(settings)), tmp_path)
    written = json.loads((tmp_path / "tokenizer.json").read_text(encoding="utf-8"))
    for key in ("normalizer", "pre_tokenizer", "post_processor", "decoder", "added_tokens"):
        assert written[key] == settings[key]
    assert (written["model"]["dropout"], written["model"]["ignore_merges"]) == (0.5, True)
    assert again == Tokenizer.from_str(json.dumps(settings))


def test_characters(tmp_path: Path) -> None:
    """A vocabulary of characters with fallback to bytes, an unknown token and affixes."""
    vocab = {
        token: id
        for id, token in enumerate(["<unk>", "a", "b", "▁", "é", "▁a", "\n", *map("<0x{:02X}>".format, range(256))])
    }
    model = {"unk_token": "<unk>", "fuse_unk": True, "byte_fallback": True, "merges": ["▁ a"], "vocab": vocab}
    settings = {**small.tokenizer_json(**model), "pre_tokenizer": None, "post_processor": None, "added_tokens": []}
    settings["normalizer"] = {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}
    settings["decoder"] = {"type": "ByteFallback"}
    again, reference = saved(Tokenizer.from_str(json.dumps(settings)), tmp_path)
    assert again == Tokenizer.from_str(json.dumps(settings))
    for text in ("a b é\n", "中 a", ""):
        assert reference.encode(text).ids == tokenizers.Tokenizer.from_str(json.dumps(settings)).encode(text).ids


def with_added(*tokens: AddedToken, **parts: object) -> Tokenizer:
    """The small vocabulary by ranks with added tokens."""
    return Tokenizer(Parts(Vocabulary.from_ranks(small.TOKENS), AddedTokens(tokens), small.RULE, **parts))


@pytest.mark.parametrize(
    "tokens",
    [
        [],
        [AddedToken("<a>", 656), AddedToken("<b>", 657)],
        [AddedToken("<a>", 700), AddedToken("<b>", 9999, special=False)],
        [AddedToken("re", small.ID_OF[b"re"]), AddedToken("<b>", 656)],
        [AddedToken("re", small.ID_OF[b"re"]), AddedToken("中 国", 5000, lstrip=True)],
    ],
)
def test_ids_of_added_tokens(tmp_path: Path, tokens: list[AddedToken]) -> None:
    """Whatever they are, tokenizers gives them, and so does what is loaded again."""
    tokenizer = with_added(*tokens)
    again, reference = saved(tokenizer, tmp_path)
    assert again.added_tokens == tokenizer.added_tokens
    text = "x<a>re <b>  中 国re " + small.TEXT
    assert tokenizer.encode(text).tolist() == again.encode(text).tolist() == reference.encode(text).ids


def test_ids_that_a_file_can_not_give(tmp_path: Path) -> None:
    """They are refused, and nothing is written."""
    for token in (AddedToken("re", 5000), AddedToken(" the", small.ID_OF[b" the"])):
        with pytest.raises(VocabularyError, match=r"can't have the id .* in a tokenizer\.json"):
            with_added(token).save(tmp_path / "tokenizer.json")
    with pytest.raises(VocabularyError, match="'<a>' and '<b>' have one id, 700"):
        with_added(AddedToken("<a>", 700), AddedToken("<b>", 700)).save(tmp_path / "tokenizer.json")
    assert list(tmp_path.iterdir()) == []


def test_templates(tmp_path: Path) -> None:
    """A template is written as TemplateProcessing."""
    template = Template(
        (Special("<s>", (5, 6)), Text("A", 1)), (Text("B"), Special("</s>", (7,), 3), Text("A"), Text("B", 2))
    )
    _, reference = saved(with_added(template=template), tmp_path)
    assert reference.encode("a").ids[:2] == [5, 6]
    assert reference.encode("a", "b").type_ids == [0, 3, 0, 2]
    assert Tokenizer.from_file(tmp_path / "tokenizer.json")._parts.template == template


def test_prefix_space(tmp_path: Path) -> None:
    """It is put before the text, and before it is cut."""
    tokenizer = with_added(prefix_space=True)
    again, reference = saved(tokenizer, tmp_path)
    for text in SAMPLES:
        assert tokenizer.encode(text).tolist() == again.encode(text).tolist() == reference.encode(text).ids


def test_what_can_not_be_saved() -> None:
    """It is named."""
    spelled = Parts(Vocabulary.from_ranks(small.TOKENS), AddedTokens([]), (Split("a", spelled=True),))
    with pytest.raises(VocabularyError, match="follows a ByteLevel, which is not kept"):
        dumps(spelled)
    with pytest.raises(VocabularyError, match="only where GPT-2's rule cuts it"):
        dumps(Parts(spelled.vocabulary, spelled.added_tokens, (Split("a"),), prefix_space=True))


def test_a_failed_save_leaves_nothing(tmp_path: Path, small_ranks, monkeypatch) -> None:
    """The old file stays whole, and no other appears."""
    path = tmp_path / "tokenizer.json"
    path.write_text("old")
    monkeypatch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        small_ranks.save(path)
    assert [file.name for file in tmp_path.iterdir()] == ["tokenizer.json"]
    assert path.read_text() == "old"
    monkeypatch.undo()
    absent = tmp_path / "absent" / "tokenizer.json"
    with pytest.raises(FileNotFoundError, match=f"{re.escape(repr(str(absent)))}$"):
        small_ranks.save(absent)
    with pytest.raises(OSError, match=f"{re.escape(repr(str(tmp_path)))}$"):
        small_ranks.save(tmp_path)


def test_saving_over_a_file(tmp_path: Path, small_ranks) -> None:
    """Its permissions stay; a new file has the usual ones."""
    path = tmp_path / "tokenizer.json"
    small_ranks.save(path)
    (tmp_path / "usual").touch()
    assert path.stat().st_mode == (tmp_path / "usual").stat().st_mode
    path.chmod(0o600)
    small_ranks.save(str(path))
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.skipif(os.name == "nt", reason="Windows has no umask")
def test_saving_leaves_the_umask_alone(tmp_path: Path, small_ranks, monkeypatch) -> None:
    """It is the process's, so that another thread's files would get the wrong permissions; and it is heeded."""
    before = os.umask(0o027)
    try:
        monkeypatch.setattr(os, "umask", None)
        small_ranks.save(tmp_path / "tokenizer.json")
    finally:
        monkeypatch.undo()
        os.umask(before)
    assert (tmp_path / "tokenizer.json").stat().st_mode & 0o777 == 0o640


# --- patterns ---

PATTERNS = [
    (r"\s++$", r"\s++\z"),
    (r"^a|[$^]|\$", r"\Aa|[$^]|\$"),
    (r"\p{N}{1,3}+x", r"(?>\p{N}{1,3})x"),
    (r"(?:ab|[c\]]){2}+", r"(?>(?:ab|[c\]]){2})"),
    (r"a{2}?b{1,2}?c{3}", r"a{2}b{1,2}?c{3}"),
    (r"(?s:.)(?i)x(?is-m:y)", r"(?m:.)(?i)x(?im-m:y)"),
    (r"[[^a]&&[]b]]+|a++", r"[[^a]&&[]b]]+|a++"),
    (GPT2, GPT2),
    ("a\\", "a\\"),
    ("", ""),
]


@pytest.mark.parametrize(("pattern", "expected"), PATTERNS)
def test_patterns_in_the_words_of_oniguruma(pattern: str, expected: str) -> None:
    """What means something else there is written otherwise; all else stays."""
    assert to_oniguruma(pattern) == expected


@pytest.mark.parametrize(
    "pattern", [r"\s+$|x", r"\p{N}{1,3}+|\P{N}", r"(?:a|bc){2}+|.", r"\p{N}{2}?|\P{N}", r"(?s:a.)"]
)
def test_patterns_cut_alike(pattern: str) -> None:
    """With the pattern tiktoken, and with the other tokenizers, find the same matches."""
    ranks = {bytes([byte]): byte for byte in range(256)}
    encoding = tiktoken.Encoding("bytes", pat_str=pattern, mergeable_ranks=ranks, special_tokens={})
    split = tokenizers.pre_tokenizers.Split(tokenizers.Regex(to_oniguruma(pattern)), "removed", invert=True)
    rng = random.Random(4)
    for _ in range(500):
        text = "".join(rng.choices("a1bc \n2x", k=rng.randrange(1, 20)))
        found = "".join(piece for piece, _ in split.pre_tokenize_str(text))
        assert encoding.decode(encoding.encode_ordinary(text)) == found


# --- the embedded encodings ---


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in embedded.ENCODINGS if name != "o200k_harmony"])
def test_embedded_encodings(tmp_path: Path, name: str) -> None:
    """Saved, OpenAI's encodings are to tokenizers what they are to tiktoken."""
    tokenizer = get_encoding(name)
    again, reference = saved(tokenizer, tmp_path)
    encoding = embedded.ENCODINGS[name]
    theirs = tiktoken.Encoding(
        name,
        pat_str=encoding.pattern,
        mergeable_ranks=dict(zip(*embedded.load_ranks(encoding.ranks), strict=True)),
        special_tokens=encoding.special_tokens,
    )
    samples = [*SAMPLES, "".join(encoding.special_tokens), data_file("corpus-small/english.txt").decode()[:200_000]]
    rng = random.Random(1)
    for text in [*samples, *(texts.random_text(rng, 200) for _ in range(300))]:
        expected = theirs.encode(text, allowed_special="all")
        assert tokenizer.encode(text).tolist() == expected
        assert again.encode(text).tolist() == expected
        assert reference.encode(text).ids == expected
