"""Templates: the special tokens around one text and around two, with type ids, against ``tokenizers``."""

import json
import pickle
from itertools import pairwise

import numpy as np
import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers.processors import TemplateProcessing

import small
from numbatok import Tokenizer
from numbatok.normalizers import Lowercase
from numbatok.parts import Parts
from numbatok.templates import Piece, Special, Template, Text

TOKENS = {"<s>": (1,), "</s>": (2,), "<two>": (3, 4)}
#: (single, pair) as ``tokenizers`` writes templates.
TEMPLATES = {
    "none": ("$A:0", "$A:0 $B:1"),
    "begin": ("<s>:0 $A:0", "<s>:0 $A:0 <s>:1 $B:1"),
    "end": ("$A:0 </s>:0", "$A:0 </s>:0 $B:1 </s>:1"),
    "both": ("<s>:0 $A:0 </s>:0", "<s>:0 $A:0 </s>:0 </s>:0 $B:0 </s>:0"),
    "several ids": ("<two>:0 <s>:0 $A:0 <two>:1", "<two>:0 $A:2 <two>:1 $B:3"),
    "twice": ("$A:0 <s>:0 $A:1", "$B:0 $A:1 $B:2"),
    "swapped": ("<s>:1 $A:1", "$B:1 <s>:0 $A:0"),
    "types only": ("$A:3", "$A:1 $B:2"),
}


def pieces(template: str) -> tuple[Piece, ...]:
    """Our form of a template."""
    parts = [part.rsplit(":", 1) for part in template.split()]
    return tuple(
        Text(name[1:], int(kind)) if name[0] == "$" else Special(name, TOKENS[name], int(kind)) for name, kind in parts
    )


@pytest.fixture(scope="module", params=TEMPLATES)
def both(request: pytest.FixtureRequest) -> tuple[Tokenizer, Tokenizer, tokenizers.Tokenizer]:
    """Ours, ours with a normalizer, and the reference with it."""
    single, pair = TEMPLATES[request.param]
    base = small.by_merges()._parts
    template = Template(pieces(single), pieces(pair))
    ours = Parts(base.vocabulary, base.added_tokens, base.rule, template=template)
    lower = Parts(base.vocabulary, base.added_tokens, base.rule, Lowercase(), template=template)
    reference = tokenizers.Tokenizer.from_str(json.dumps(small.tokenizer_json()))
    specials = [{"id": name, "ids": list(ids), "tokens": [name] * len(ids)} for name, ids in TOKENS.items()]
    reference.post_processor = TemplateProcessing(single=single, pair=pair, special_tokens=specials)
    return Tokenizer(ours), Tokenizer(lower), reference


texts = st.sampled_from(["", "a", "hello world", "Hello <|endoftext|> you", "é中 " * 9, "x" * 100, "the " * 3_000])


@settings(max_examples=30)
@given(st.lists(st.tuples(texts, texts), max_size=4), st.booleans())
def test_batches(both, pairs: list[tuple[str, str]], special: bool) -> None:
    """Single texts and pairs, with and without special tokens: ids, type ids, counts."""
    ours, _, reference = both
    firsts, seconds = [first for first, _ in pairs], [second for _, second in pairs]
    for batch, wanted in (
        (
            ours.encode_batch(firsts, add_special_tokens=special),
            [reference.encode(first, add_special_tokens=special) for first in firsts],
        ),
        (
            ours.encode_batch(firsts, seconds, add_special_tokens=special),
            [reference.encode(*pair, add_special_tokens=special) for pair in pairs],
        ),
    ):
        assert batch.tolist() == [encoding.ids for encoding in wanted]
        assert batch.type_ids.tolist() == [kind for encoding in wanted for kind in encoding.type_ids]
    counts = ours.count_batch(firsts, add_special_tokens=special).tolist()
    assert counts == [len(reference.encode(first, add_special_tokens=special).ids) for first in firsts]


@settings(max_examples=30)
@given(texts, texts, st.booleans())
def test_one_text(both, first: str, second: str, special: bool) -> None:
    """The short way for one text, and a pair."""
    ours, _, reference = both
    options = {"add_special_tokens": special}
    assert ours.encode(first, **options).tolist() == reference.encode(first, **options).ids
    assert ours.encode(first.encode(), **options).tolist() == reference.encode(first, **options).ids
    assert ours.encode(first, second, **options).tolist() == reference.encode(first, second, **options).ids
    assert ours.count(first, **options) == len(reference.encode(first, **options).ids)


def test_with_normalizing(both) -> None:
    """Texts that are changed stand in their templates as others do; added tokens stay in their places."""
    ours, lower, _ = both
    given = ["Hello", "hello", "A<|endoftext|>B", ""]
    changed = ["hello", "hello", "a<|endoftext|>b", ""]
    for special in (True, False):
        batch = lower.encode_batch(given, changed, add_special_tokens=special)
        wanted = ours.encode_batch(changed, changed, add_special_tokens=special)
        assert batch == wanted
        assert np.array_equal(batch.type_ids, wanted.type_ids)
        for text, same in zip(given, changed, strict=True):
            assert (
                lower.encode(text, add_special_tokens=special).tolist()
                == ours.encode(same, add_special_tokens=special).tolist()
            )


def test_pairs_must_match(small_ranks) -> None:
    """One second text for each."""
    with pytest.raises(ValueError, match="2 texts are given with 1 pairs"):
        small_ranks.encode_batch(["a", "b"], ["c"])
    with pytest.raises(TypeError, match="texts must be an iterable"):
        small_ranks.encode_batch(["a", "b"], "cd")


def test_disallowed_in_the_second_text(small_ranks) -> None:
    """Which text of the pair it is about."""
    with pytest.raises(ValueError, match="at character 1 of the pair's second text at index 1 of the batch"):
        small_ranks.encode_batch(["a", "b"], ["c", "d<|endoftext|>"], disallowed_special="all", allowed_special=())


def test_type_ids_of_parts(both) -> None:
    """They go with the documents of a batch, through slices and pickles."""
    ours, _, _ = both
    batch = ours.encode_batch(["a", "hello", "the other"], ["b", "", "that"])
    for part in (batch[1:], batch[::-1], batch[1:2], pickle.loads(pickle.dumps(batch[1:]))):
        assert len(part.type_ids) == len(part.ids)
    spans = [batch.type_ids[begin:end].tolist() for end, begin in pairwise(batch.offsets[::-1])]
    assert batch[::-1].type_ids.tolist() == [kind for span in spans for kind in span]


def test_templates_of_one_piece() -> None:
    """Special tokens alone, the text alone, and of a pair only one text."""
    content = small.tokenizer_json()
    text = {which: {"Sequence": {"id": which, "type_id": 0}} for which in "AB"}
    special = {"SpecialToken": {"id": "E", "type_id": 0}}
    tokens = {"E": {"id": "E", "ids": [65], "tokens": ["b"]}}
    for single, pair in (([special], [text["B"]]), ([text["A"]], [text["A"]]), ([text["A"]], [special])):
        content["post_processor"] = {
            "type": "TemplateProcessing",
            "single": single,
            "pair": pair,
            "special_tokens": tokens,
        }
        ours = Tokenizer.from_str(json.dumps(content))
        alone, other = (ours.encode_batch(["the dog"], ["fox"], add_special_tokens=False) for _ in range(2))
        assert alone == other
        wanted = {"A": small.by_merges().encode("the dog"), "B": small.by_merges().encode("fox")}
        for pieces, got in ((single, ours.encode_batch(["the dog"])), (pair, ours.encode_batch(["the dog"], ["fox"]))):
            which = pieces[0].get("Sequence", {}).get("id")
            assert got.ids.tolist() == ([65] if which is None else wanted[which].tolist())
