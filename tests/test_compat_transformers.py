"""Tokenizers for transformers, against its own: the same calls on both."""

import copy
import functools
import importlib.util
import json
import pickle
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tokenizers

import small
from conftest import data_file
from numbatok import VocabularyError
from numbatok.compat.huggingface import (
    Encoding,
    NumbatokTokenizer,
    from_transformers,
    patch_transformers,
    unpatch_transformers,
)
from support import output_of
from test_compat_huggingface import content
from vocabularies import ROWS

transformers = pytest.importorskip("transformers", "5", "transformers 5 is not installed")
HAS_TORCH = importlib.util.find_spec("torch") is not None
TENSORS = ["np", *(["pt"] if HAS_TORCH else [])]
KINDS = ("plain", "trimming and template", "roberta", "lowercase")
TEXTS = ["The quick brown fox", "jumps <mask> over [SEP] the lazy dog; été 日月 😀", "", "it's", " the  dog\n\n"]
CHAT = "{% for message in messages %}[CLS]{{ message['role'] }}: {{ message['content'] }}[SEP]{% endfor %}"

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@functools.cache
def original(kind: str) -> Any:
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizers.Tokenizer.from_str(content(kind)),
        pad_token="<|endoftext|>",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="<mask>",
        model_max_length=64,
    )
    tokenizer.chat_template = CHAT
    if kind == "roberta":
        tokenizer.model_input_names = ["input_ids", "token_type_ids", "attention_mask"]
    return tokenizer


@functools.cache
def ours(kind: str) -> Any:
    return from_transformers(original(kind))


def plain(value: Any) -> Any:
    """A result, comparable: with the types of its arrays."""
    if isinstance(value, transformers.BatchEncoding):
        encodings = value.encodings
        details = [(each.ids, each.tokens, each.word_ids, each.sequence_ids, each.offsets) for each in encodings or ()]
        return type(value), {key: plain(each) for key, each in value.items()}, value.n_sequences, details
    if hasattr(value, "numpy"):
        return "tensor", str(value.dtype), value.tolist()
    if isinstance(value, np.ndarray):
        rows = [plain(row) for row in value] if value.dtype == object else value.tolist()
        return "array", str(value.dtype), rows
    return value


def outcome(call: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    try:
        return plain(call(*arguments, **options))
    except BaseException as error:  # of which truncation in the reference raises just Exception, or panics
        if isinstance(error, ValueError) or type(error) is Exception or type(error).__name__ == "PanicException":
            return ValueError
        return type(error)


def compare(kind: str, *arguments: Any, method: str = "__call__", **options: Any) -> None:
    wanted = outcome(getattr(original(kind), method), *arguments, **options)
    assert outcome(getattr(ours(kind), method), *arguments, **options) == wanted, (arguments, options)


SETTINGS: list[dict[str, Any]] = [
    {},
    {"padding": True},
    {"padding": "max_length", "max_length": 20},
    {"padding": True, "pad_to_multiple_of": 8, "padding_side": "left"},
    {"truncation": True, "max_length": 9},
    {"truncation": True, "max_length": 9, "padding": "max_length"},
    {"truncation": True, "padding": True},
    {"truncation": "only_first", "max_length": 12, "padding": True},
    {"truncation": "only_second", "max_length": 12},
    {"add_special_tokens": False, "padding": True},
    {"split_special_tokens": True, "padding": True},
    {"truncation": True, "max_length": 7, "stride": 2, "return_overflowing_tokens": True, "padding": True},
    {"return_offsets_mapping": True, "return_special_tokens_mask": True, "return_length": True},
    {"return_length": True, "padding": True, "return_token_type_ids": True, "return_attention_mask": False},
    {"max_length": 3, "truncation": True, "stride": 7},
    {"padding": True, "verbose": False, "return_token_type_ids": False},
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("tensors", [None, *TENSORS])
def test_call(kind: str, tensors: str | None) -> None:
    for settings in SETTINGS:
        for given in (
            (TEXTS,),
            (tuple(TEXTS),),
            (TEXTS[0],),
            ("",),
            (TEXTS[0], TEXTS[1]),
            (TEXTS[0], ""),
            (TEXTS, TEXTS[::-1]),
            (list(zip(TEXTS, TEXTS[::-1], strict=True)),),
            ([],),
            (TEXTS, TEXTS[1:]),
            (TEXTS, "a"),
            ("a", TEXTS),
            (3,),
            ([3],),
            ([TEXTS[0], 3],),
            ([TEXTS[0], None],),
            (None,),
        ):
            compare(kind, *given, return_tensors=tensors, **settings)
        for words in (["The", " dog"], [["The", " dog"], ["a"]], [], [[]]):
            compare(kind, words, is_split_into_words=True, return_tensors=tensors, **settings)
        pairs = [["The", " dog"], ["a"]], [["b"], ["c", "d"]]
        compare(kind, *pairs, is_split_into_words=True, return_tensors=tensors, **settings)


@pytest.mark.parametrize("kind", KINDS)
def test_other_methods(kind: str) -> None:
    for text in TEXTS:
        compare(kind, text, method="tokenize")
        compare(kind, text, method="encode")
        compare(kind, text, "another", method="encode", truncation=True, max_length=8)
        ids = original(kind).encode(text)
        for options in ({}, {"skip_special_tokens": True}, {"clean_up_tokenization_spaces": False}):
            compare(kind, ids, method="decode", **options)
            compare(kind, [ids, ids[:2]], method="decode", **options)
            compare(kind, [ids, [], ids[:2]], method="batch_decode", **options)
            compare(kind, np.array([ids, ids]), method="batch_decode", **options)
            compare(kind, [np.array(ids), ids], method="batch_decode", **options)
        for wrong in ([[3, -1]], [[]], [], [["a"]], [[1.5]], [[1 << 40]], [[3, 1 << 20]], ids, [ids, 3]):
            compare(kind, wrong, method="decode")
            compare(kind, wrong, method="batch_decode")
        compare(kind, 5, method="decode")
        compare(kind, ids, method="convert_ids_to_tokens")
        compare(kind, original(kind).convert_ids_to_tokens(ids), method="convert_tokens_to_ids")
        compare(kind, original(kind).convert_ids_to_tokens(ids), method="convert_tokens_to_string")
    compare(kind, text_target=TEXTS, padding=True, return_tensors="np")
    compare(kind, TEXTS, text_target=TEXTS, padding=True)
    for name in (
        "vocab_size",
        "all_special_ids",
        "all_special_tokens",
        "is_fast",
        "name_or_path",
        "added_tokens_decoder",
    ):
        assert str(getattr(ours(kind), name)) == str(getattr(original(kind), name))
    assert len(ours(kind)) == len(original(kind))
    assert ours(kind).get_vocab() == original(kind).get_vocab()


@pytest.mark.parametrize("tensors", TENSORS)
@pytest.mark.parametrize("kind", KINDS)
def test_tensors_of_other_methods(kind: str, tensors: str) -> None:
    """Whose calls do not say all that __call__ says."""
    for options in (
        {},
        {"padding": True},
        {"padding": "max_length", "max_length": 20},
        {"truncation": True, "max_length": 5, "padding_side": "left"},
        {"add_special_tokens": False},
        {"pad_to_multiple_of": 8, "padding": True, "verbose": False},
    ):
        for given in ((TEXTS[1],), (TEXTS[0], TEXTS[1])):
            compare(kind, *given, method="encode", return_tensors=tensors, **options)
    for options in ({}, {"add_special_tokens": True}):
        compare(kind, TEXTS[1], method="tokenize", return_tensors=tensors, **options)


def test_options_that_transformers_passes_over() -> None:
    """It says nothing of them; here there is a warning, and the same result."""
    tokenizer, reference = ours("plain"), original("plain")
    for name, given in (("__call__", TEXTS), ("encode", TEXTS[0]), ("tokenize", TEXTS[0])):
        with pytest.warns(UserWarning, match="transformers knows no option colour of its tokenizers") as caught:
            found = plain(getattr(tokenizer, name)(given, colour="red"))
        assert found == plain(getattr(reference, name)(given, colour="red"))
        assert name != "__call__" or caught[0].filename == __file__
    for name, given in (("decode", [3, 4]), ("decode", [[3, 4]]), ("batch_decode", [[3, 4], [5]])):
        with pytest.warns(UserWarning, match="no option colour") as caught:
            found = getattr(tokenizer, name)(given, colour="red", clean_up_tokenization_spaces=False)
        assert found == getattr(reference, name)(given, colour="red", clean_up_tokenization_spaces=False)
        assert len(caught) == 1
    assert tokenizer.decode([3], use_source_tokenizer=True) == reference.decode([3], use_source_tokenizer=True)


def test_chat_template() -> None:
    chat = [{"role": "user", "content": "The dog?"}, {"role": "assistant", "content": "été"}]
    for kind in KINDS:
        for options in (
            {},
            {"tokenize": False},
            {"return_dict": False},
            {"return_tensors": "np", "padding": True},
            {"add_generation_prompt": True, "truncation": True, "max_length": 6},
        ):
            compare(kind, chat, method="apply_chat_template", **options)
            compare(kind, [chat, chat[:1]], method="apply_chat_template", **options)


def test_encodings_are_numbatoks() -> None:
    for tensors in (None, "np"):
        made = ours("roberta")(TEXTS, padding=True, return_tensors=tensors)
        assert {type(each) for each in made.encodings} == {Encoding}
        assert made.char_to_token(0, 5) == original("roberta")(TEXTS, padding=True).char_to_token(0, 5)
        assert made.word_ids(1) == original("roberta")(TEXTS, padding=True).word_ids(1)
        assert made.tokens(1) == original("roberta")(TEXTS, padding=True).tokens(1)


def test_other_settings_go_to_transformers() -> None:
    tokenizer = from_transformers(original("plain"))
    tokenizer.backend_tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.UnicodeScripts()
    with pytest.warns(RuntimeWarning, match="transformers' own library from now on"):
        tokenizer("the dog")
    reference = copy.deepcopy(original("plain"))
    reference.backend_tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.UnicodeScripts()
    assert plain(tokenizer("the dog")) == plain(reference("the dog"))
    assert tokenizer.decode([3, 4]) == reference.decode([3, 4])


def test_changes() -> None:
    reference, changed = copy.deepcopy(original("plain")), from_transformers(original("plain"))
    text = "the dog [Q] one <two>  three four"
    roberta = original("roberta").backend_tokenizer.post_processor
    for change in (
        lambda each: each.add_tokens(["one", "[Q]"]),
        lambda each: each.add_special_tokens({"pad_token": "<two>", "extra_special_tokens": ["three"]}),
        lambda each: each.backend_tokenizer.add_tokens(["four"]),
        lambda each: setattr(each.backend_tokenizer, "normalizer", tokenizers.normalizers.Lowercase()),
        lambda each: setattr(each.backend_tokenizer, "post_processor", roberta),
        lambda each: setattr(each, "padding_side", "left"),
        lambda each: setattr(each, "truncation_side", "left"),
        lambda each: setattr(each, "pad_token", "four"),
    ):
        assert change(reference) == change(changed)
        for options in ({}, {"padding": True, "return_tensors": "np"}, {"truncation": True, "max_length": 6}):
            for given in (text, [text, "a"]):
                assert outcome(changed, given, **options) == outcome(reference, given, **options)
        assert len(changed) == len(reference)
        ids = reference(text).input_ids
        for skip in (False, True):
            assert changed.decode(ids, skip_special_tokens=skip) == reference.decode(ids, skip_special_tokens=skip)
    assert original("plain")(text).input_ids != reference(text).input_ids


def test_saving(tmp_path: Path) -> None:
    tokenizer = ours("roberta")
    original("roberta").backend_tokenizer.no_padding()  # which it keeps of the last call
    original("roberta").backend_tokenizer.no_truncation()
    original("roberta").save_pretrained(tmp_path / "theirs")
    tokenizer.save_pretrained(tmp_path / "ours")
    for file in (tmp_path / "theirs").iterdir():
        texts = (tmp_path / "ours" / file.name).read_text(), file.read_text()
        assert texts[0] == texts[1] or json.loads(texts[0]) == json.loads(texts[1])
    wanted = plain(original("roberta")(TEXTS, padding=True, return_token_type_ids=True))
    for made in (
        transformers.AutoTokenizer.from_pretrained(tmp_path / "ours"),
        from_transformers(tmp_path / "theirs"),
        from_transformers(str(tmp_path / "theirs"), model_max_length=64),
        pickle.loads(pickle.dumps(tokenizer)),
        copy.deepcopy(tokenizer),
        copy.copy(tokenizer),
    ):
        assert plain(made(TEXTS, padding=True, return_token_type_ids=True)) == wanted
        assert type(made).__name__ == type(original("roberta")).__name__
    assert isinstance(pickle.loads(pickle.dumps(tokenizer)), NumbatokTokenizer)
    assert from_transformers(tokenizer) is not tokenizer


def test_threads() -> None:
    tokenizer = ours("trimming and template")
    texts = ["the quick brown fox " * number for number in range(1, 9)]
    reference = original("trimming and template")
    wanted = {}
    for length in range(5, 15):
        wanted[length] = reference(texts, truncation=True, padding=True, max_length=length).input_ids
    failures: list[int] = []

    def work(length: int) -> None:
        for tensors in (None, "np") * 5:
            found = tokenizer(texts, truncation=True, padding=True, max_length=length, return_tensors=tensors).input_ids
            if (found if tensors is None else found.tolist()) != wanted[length]:
                failures.append(length)

    threads = [threading.Thread(target=work, args=(length,)) for length in wanted]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


@pytest.mark.skipif(not HAS_TORCH, reason="PyTorch is not installed")
@pytest.mark.parametrize("kind", KINDS)
def test_collators(kind: str) -> None:
    """What they make of rows, with the same dice."""
    import torch

    texts = [text for text in TEXTS if text]
    for make in (
        transformers.DataCollatorWithPadding,
        functools.partial(transformers.DataCollatorForLanguageModeling, mlm=False),
        functools.partial(transformers.DataCollatorForLanguageModeling, mlm_probability=0.3),
        transformers.DataCollatorForSeq2Seq,
        transformers.DataCollatorForTokenClassification,
    ):
        made = []
        for each in (original(kind), ours(kind)):
            rows = [dict(each(text, return_special_tokens_mask=True)) for text in texts]
            if "Seq2Seq" in str(make) or "Token" in str(make):
                rows = [{"input_ids": row["input_ids"], "labels": row["input_ids"]} for row in rows]
            torch.manual_seed(1)
            made.append(plain(make(each)(rows)))
        assert made[0] == made[1]


@pytest.mark.skipif(not HAS_TORCH, reason="PyTorch is not installed")
def test_training() -> None:
    """A loop over batches that workers make, as in a script."""
    import torch

    losses = []
    for each in (original("plain"), ours("plain")):
        rows = [each(text, truncation=True, max_length=16) for text in TEXTS * 2 if text]
        collate = transformers.DataCollatorForLanguageModeling(each, mlm=False)
        torch.manual_seed(1)
        model = generator()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        losses.append([])
        for batch in torch.utils.data.DataLoader(rows, batch_size=4, collate_fn=collate):
            loss = model(**batch).loss
            loss.backward()
            optimizer.step()
            losses[-1].append(loss.item())
    assert losses[0] == losses[1]


def generator() -> Any:
    """A small model that generates."""
    config = transformers.GPT2Config(
        vocab_size=700, n_embd=8, n_layer=1, n_head=1, n_positions=64, bos_token_id=656, eos_token_id=656
    )
    return transformers.GPT2LMHeadModel(config)


@pytest.mark.skipif(not HAS_TORCH, reason="PyTorch is not installed")
@pytest.mark.filterwarnings("ignore")  # of the pipelines themselves
def test_pipelines() -> None:
    """Of generation, masks, and classes of tokens and texts, which look at offsets, words and special tokens."""
    config = transformers.RobertaConfig(
        vocab_size=700, hidden_size=8, num_hidden_layers=1, num_attention_heads=1, intermediate_size=8, pad_token_id=1
    )
    masked = transformers.RobertaForMaskedLM(config).eval()
    tokens = transformers.RobertaForTokenClassification(config).eval()
    texts = transformers.RobertaForSequenceClassification(config).eval()
    for task, model, kind, given, options in (
        ("text-generation", generator().eval(), "plain", "the dog", {"max_new_tokens": 4, "do_sample": False}),
        ("fill-mask", masked, "roberta", "the quick <mask> fox", {}),
        ("feature-extraction", masked, "roberta", "the quick", {}),
        ("token-classification", tokens, "roberta", "the quick brown fox", {"aggregation_strategy": "simple"}),
        ("text-classification", texts, "roberta", ["the quick", "dog"], {"truncation": True}),
        ("zero-shot-classification", texts, "roberta", "the quick", {"candidate_labels": ["a", "b"]}),
    ):
        results = [
            transformers.pipeline(task, model=model, tokenizer=each)(given, **options)
            for each in (original(kind), ours(kind))
        ]
        assert results[0] == results[1], task


def test_unsupported() -> None:
    model = tokenizers.models.WordPiece({"[UNK]": 0, "a": 1}, unk_token="[UNK]")
    other = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizers.Tokenizer(model))
    with pytest.raises(VocabularyError, match="WordPiece"):
        from_transformers(other)
    with pytest.raises(NotImplementedError, match="int is not supported"):
        from_transformers(3)
    with pytest.raises(TypeError, match="options are for loading"):
        from_transformers(original("plain"), use_fast=True)


@pytest.fixture
def unpatched() -> Iterator[None]:
    yield
    unpatch_transformers()


@pytest.mark.usefixtures("unpatched")
def test_patch(tmp_path: Path) -> None:
    auto = transformers.AutoTokenizer
    before = dict(vars(auto))
    original("roberta").save_pretrained(tmp_path / "good")
    model = tokenizers.models.WordPiece({"[UNK]": 0, "a": 1}, unk_token="[UNK]")
    other = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizers.Tokenizer(model))
    other.save_pretrained(tmp_path / "other")
    wanted = plain(auto.from_pretrained(tmp_path / "good")(TEXTS))
    patch_transformers()
    assert isinstance(auto.from_pretrained(tmp_path / "good"), NumbatokTokenizer)
    assert not isinstance(auto.from_pretrained(tmp_path / "other"), NumbatokTokenizer)
    assert isinstance(from_transformers(tmp_path / "good"), NumbatokTokenizer)
    with patch_transformers():
        assert plain(auto.from_pretrained(tmp_path / "good")(TEXTS)) == wanted
    assert isinstance(auto.from_pretrained(tmp_path / "good"), NumbatokTokenizer)
    unpatch_transformers()
    unpatch_transformers()
    assert dict(vars(auto)) == before
    with pytest.raises(OSError, match="no such"), patch_transformers():
        auto.from_pretrained(str(tmp_path / "no such directory"))
    assert dict(vars(auto)) == before
    assert not isinstance(auto.from_pretrained(tmp_path / "good"), NumbatokTokenizer)


@pytest.mark.usefixtures("unpatched")
def test_patches_in_any_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each context ends its own patch alone; subclasses, and what others put around it, are let be."""
    auto = transformers.AutoTokenizer
    before = dict(vars(auto))
    original("plain").save_pretrained(tmp_path)

    class Own(auto):
        pass

    def is_ours(kind: Any) -> bool:
        return isinstance(kind.from_pretrained(tmp_path), NumbatokTokenizer)

    first = patch_transformers()
    assert is_ours(auto)
    assert is_ours(Own)
    unpatch_transformers()
    with patch_transformers():
        with first:  # it is over
            pass
        assert is_ours(auto)
        with pytest.raises(KeyError), patch_transformers():
            raise KeyError
        assert is_ours(auto)
    assert dict(vars(auto)) == before
    assert not is_ours(Own)

    patch_transformers()
    inside = auto.from_pretrained
    monkeypatch.setattr(auto, "from_pretrained", lambda *arguments: inside(*arguments))
    assert is_ours(auto)
    unpatch_transformers()
    assert not is_ours(auto)
    with patch_transformers():
        assert is_ours(auto)
    monkeypatch.undo()
    assert not is_ours(auto)


@pytest.mark.usefixtures("unpatched")
def test_patch_in_pipelines(tmp_path: Path) -> None:
    """Where AutoTokenizer is called by transformers itself."""
    if not HAS_TORCH:
        pytest.skip("PyTorch is not installed")
    original("plain").save_pretrained(tmp_path)
    generator().save_pretrained(tmp_path)
    wanted = transformers.pipeline("text-generation", model=str(tmp_path))("the dog", max_new_tokens=3, do_sample=False)
    with patch_transformers():
        pipeline = transformers.pipeline("text-generation", model=str(tmp_path))
    assert isinstance(pipeline.tokenizer, NumbatokTokenizer)
    assert pipeline("the dog", max_new_tokens=3, do_sample=False) == wanted


def test_without_transformers() -> None:
    code = """
        import sys
        sys.modules["transformers"] = None
        from numbatok.compat.huggingface import from_transformers, patch_transformers
        for call in (lambda: from_transformers("gpt2"), patch_transformers):
            try:
                call()
            except ImportError as error:
                print("pip install numbatok[transformers]" in str(error))
    """
    assert output_of(code) == "True\nTrue\n"


def test_before_transformers_5() -> None:
    """It is named with what is wanted."""
    code = """
        import sys, types
        old = types.ModuleType("transformers")
        old.__version__, old.__path__ = "4.57.1", []
        sys.modules["transformers"] = old
        from numbatok.compat.huggingface import from_transformers, patch_transformers
        for call in (lambda: from_transformers("gpt2"), lambda: from_transformers(object()), patch_transformers):
            try:
                call()
            except ImportError as error:
                print(error)
    """
    message = "this needs transformers 5 or newer (4.57.1 is installed): pip install numbatok[transformers]\n"
    assert output_of(code) == 3 * message


@pytest.mark.parametrize("row", [row for row in ROWS if row.kind == "tokenizer.json" and not row.refused], ids=str)
def test_real_vocabularies(row: Any) -> None:
    backend = tokenizers.Tokenizer.from_str(data_file(f"vocab/{row.file}").decode())
    reference = transformers.PreTrainedTokenizerFast(tokenizer_object=backend, pad_token=backend.id_to_token(0))
    tokenizer = from_transformers(reference)
    texts = [*TEXTS, *small.TEXT.split("\n")]
    for options in (
        {"padding": True, "return_tensors": "np"},
        {"truncation": True, "max_length": 10, "stride": 3, "return_overflowing_tokens": True},
        {"return_offsets_mapping": True, "return_special_tokens_mask": True, "padding": True},
        {"padding": "max_length", "max_length": 16, "truncation": True, "padding_side": "left", "return_tensors": "np"},
        {"truncation": "only_first", "max_length": 9, "add_special_tokens": False, "return_token_type_ids": True},
        {"text_pair": texts[::-1], "padding": True, "truncation": True, "max_length": 20, "stride": 2},
    ):
        assert outcome(tokenizer, texts, **options) == outcome(reference, texts, **options)
    ids = reference(texts).input_ids
    assert tokenizer.batch_decode(ids) == reference.batch_decode(ids)
