"""Added tokens with flags, in two passes, against ``tokenizers``: white space taken along, whole words, normalizing."""

import dataclasses
import json
from random import Random
from types import MappingProxyType

import numpy as np
import pytest
import tokenizers

import small
from numbatok import AddedToken, Tokenizer, VocabularyError
from numbatok.added_tokens import AddedTokens
from numbatok.normalizers import NFC, Lowercase, Normalizer, Sequence
from numbatok.parts import Parts

CONTENTS = [
    *"<a> <A> <a><b> <b> <mask> a ab e\u0301 É é <é> \u0345 word 。 中 中中 \n \n\n \u3000 's ² _ 1".split(" "),
    *("<word word>", "\u00a0x", " ", "  ", "<a> ", " <b>", "\t"),
]
PIECES = [*CONTENTS, *"aA bB\t\r_-9²é中。\u200d\u0301E", "x", "hello", "<", ">", "   ", "<a", "\u0130"]
NORMALIZERS: dict[str, tuple[Normalizer | None, tokenizers.normalizers.Normalizer | None]] = {
    "none": (None, None),
    "NFC": (NFC(), tokenizers.normalizers.NFC()),
    "lower case": (Lowercase(), tokenizers.normalizers.Lowercase()),
    "both": (
        Sequence((NFC(), Lowercase())),
        tokenizers.normalizers.Sequence([tokenizers.normalizers.NFC(), tokenizers.normalizers.Lowercase()]),
    ),
}
FLAGS = ("lstrip", "rstrip", "single_word", "normalized", "special")


def both(
    tokens: list[tuple], names: str = "none", prefix_space: bool = False
) -> tuple[Tokenizer, tokenizers.Tokenizer]:
    """The small vocabulary with added tokens: ours, and the reference's."""
    ours_normalizer, normalizer = NORMALIZERS[names]
    reference = tokenizers.Tokenizer.from_str(json.dumps(small.tokenizer_json() | {"added_tokens": []}))
    if normalizer is not None:
        reference.normalizer = normalizer
    if prefix_space:
        reference.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=True)
    for content, *flags in tokens:
        options = dict(zip(FLAGS, flags, strict=True))
        token = tokenizers.AddedToken(content, **options)
        (reference.add_special_tokens if options["special"] else reference.add_tokens)([token])
    ours = [
        AddedToken(content, reference.token_to_id(content), **dict(zip(FLAGS, flags, strict=True)))
        for content, *flags in tokens
    ]
    vocabulary = small.by_merges()._vocabulary
    parts = Parts(vocabulary, AddedTokens(ours), small.RULE, ours_normalizer, prefix_space)
    return Tokenizer(parts), reference


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", NORMALIZERS)
@pytest.mark.parametrize("prefix_space", [False, True], ids=["", "prefix space"])
def test_flags(name: str, prefix_space: bool, seed: int) -> None:
    """Any added tokens with any flags, in any text: ``encode``, ``encode_batch`` and ``count`` as the reference."""
    random = Random(f"{name} {prefix_space} {seed}")
    for _ in range(6):
        contents = random.sample(CONTENTS, random.randint(1, 6))
        tokens = [(content, *(random.random() < 0.4 for _ in FLAGS)) for content in contents]
        ours, reference = both(tokens, name, prefix_space)
        texts, wanted = [], []
        for _ in range(60):
            pieces = random.choices([*contents * 4, *PIECES], k=random.randint(0, 12))
            text = "".join(pieces)
            try:
                ids = reference.encode(text, add_special_tokens=False).ids
            except BaseException as error:  # it panics where a token's white space was another's before
                if "bad split" not in str(error):
                    raise
                continue
            texts.append(text)
            wanted.append(ids)
        assert [ours.encode(text).tolist() for text in texts] == wanted, tokens
        assert ours.encode_batch(texts).tolist() == wanted, tokens
        assert ours.count_batch(texts).tolist() == [len(ids) for ids in wanted], tokens


def test_white_space_can_be_taken_twice() -> None:
    """Taking white space along does not move the search: what is in it is found as well."""
    ours, reference = both([("<m>", False, True, False, False, True), ("\n", False, False, False, False, True)])
    text = "<m>\n \n X"
    assert ours.encode(text).tolist() == reference.encode(text, add_special_tokens=False).ids


@pytest.mark.parametrize("flag", ["lstrip", "rstrip"])
@pytest.mark.parametrize("normalized", [False, True])
def test_long_white_space(flag: str, normalized: bool) -> None:
    """Far more than a chunk of it, which the rule would cut, belongs to the token."""
    flags = {"normalized": normalized, "special": True, flag: True}
    ours, reference = both([("<m>", *(flags.get(name, False) for name in FLAGS))])
    for space in (" ", "\n", " \n", "\u3000"):
        text = f"a{space * 20_000}<m>{space * 20_000}b <m>{space}"
        assert ours.encode(text).tolist() == reference.encode(text, add_special_tokens=False).ids


@pytest.mark.parametrize("length", range(40, 140, 7))
def test_tokens_near_the_end(length: int) -> None:
    """Leads and the bytes that are looked at with them, at every place of a text's last blocks."""
    contents = ["<unused>", "\u2581\u2581", "||||", "    ", "\t\t", "[multi]", "{x}"]
    ours, reference = both([(content, False, False, False, False, False) for content in contents])
    for content in contents:
        for place in range(length):
            text = "ab" * (place // 2) + content + "c" * (length - place)
            assert ours.encode(text).tolist() == reference.encode(text, add_special_tokens=False).ids


def test_two_passes() -> None:
    """A raw token counts before one that is looked for in normalized text, even where it is the shorter."""
    ours, reference = both(
        [("ab", False, False, False, False, False), ("xABy", False, False, False, True, False)], "lower case"
    )
    for text in ("xaby", "xABy", "XABY", "XabY"):
        assert ours.encode(text).tolist() == reference.encode(text, add_special_tokens=False).ids


def test_nothing_is_left_of_a_token() -> None:
    """The reference finds such a token everywhere, and cuts words into characters: it is refused."""
    settings = small.tokenizer_json() | {"normalizer": {"type": "Strip", "strip_left": True, "strip_right": True}}
    tokenizer, reference = Tokenizer.from_str(json.dumps(settings)), tokenizers.Tokenizer.from_str(json.dumps(settings))
    reference.add_tokens([tokenizers.AddedToken("\n", normalized=True)])
    assert len(reference.encode("the").ids) == 3 > len(tokenizer.encode("the"))
    with pytest.raises(VocabularyError, match=r"added token '\\n' .* normalizing leaves nothing of it"):
        tokenizer.add_tokens(["\n"])
    added = tokenizer.add_tokens(["\n"], normalized=False).encode("the\n").tolist()
    assert added == [*tokenizer.encode("the"), 657]


def test_refused_in_text_that_is_normalized() -> None:
    """The position is that in the text as it was given."""
    ours, _ = both([("<s>", False, False, False, False, True)], "lower case")
    with pytest.raises(ValueError, match=r"'<s>' at character 6 of the text at index 1"):
        ours.encode_batch(["a", "HELLO <s>"], disallowed_special="all", allowed_special=())
    assert (
        ours.encode("HELLO <s>", allowed_special=()).tolist() == ours.encode("hello <s>", allowed_special=()).tolist()
    )


def test_add_tokens() -> None:
    """A new tokenizer; ids go on after the largest, and what is a token already keeps its own."""
    tokenizer = small.by_merges()
    more = tokenizer.add_tokens(["<new>", " the", "", "<new>", "<other>"], single_word=True)
    assert len(tokenizer.added_tokens) == 1
    reference = tokenizers.Tokenizer.from_str(json.dumps(small.tokenizer_json()))
    reference.add_tokens([tokenizers.AddedToken(content, single_word=True) for content in ["<new>", " the", "<other>"]])
    assert {token.content: token.id for token in more.added_tokens} == {
        token.content: id for id, token in reference.get_added_tokens_decoder().items()
    }
    for text in ("in the<new>", "in the <new> <other>", "x<new>"):
        assert more.encode(text).tolist() == reference.encode(text).ids
    assert more.add_tokens(["<new>"], special=True).encode("x<new>").tolist()[-1] == more.token_to_id("<new>")
    with pytest.raises(TypeError, match="iterable of str"):
        tokenizer.add_tokens("<new>")
    with pytest.raises(TypeError, match="must be a str, not int"):
        tokenizer.add_tokens([7])
    with pytest.raises(TypeError, match="contents must be an iterable of str, not NoneType"):
        tokenizer.add_tokens(None)
    truth: dict = {"lstrip": 2, "rstrip": "yes", "single_word": np.True_, "normalized": 2}
    assert tokenizer.add_tokens(["<new>"], **truth) == tokenizer.add_tokens(["<new>"], **dict.fromkeys(truth, True))
    with pytest.raises(ValueError, match="ambiguous"):
        tokenizer.add_tokens(["<new>"], lstrip=np.ones(2))
    for given in ({"<new>": 1000}, {"<new>": 5}, {"<new>": None}, {}, MappingProxyType({"<new>": 1000})):
        for add in (tokenizer.add_tokens, tokenizer.add_special_tokens):
            with pytest.raises(
                TypeError, match=r"iterable of str, not (dict|mappingproxy): new tokens get the ids after"
            ):
                add(given)


def test_flags_are_part_of_equality() -> None:
    """And survive a change of parts."""
    ours, _ = both([("<s>", False, False, False, False, True)])
    other, _ = both([("<s>", True, False, False, False, True)])
    assert ours != other
    assert Tokenizer(dataclasses.replace(other._parts, name="x")) == other


def test_add_special_tokens() -> None:
    """The same with the one flag set."""
    tokenizer = small.by_merges()
    more = tokenizer.add_special_tokens(["<s>"], lstrip=True)
    assert more == tokenizer.add_tokens(["<s>"], special=True, lstrip=True)
    assert more.decode(more.encode("a <s>"), skip_special_tokens=True) == "a"


@pytest.mark.parametrize("listed", [[], ["\u2581"], ["\u2581", "<x>"]])
def test_new_ids_follow_the_model(listed: list[str]) -> None:
    """Its tokens that no text becomes count, and so do those that are added tokens as well."""
    vocab = {small.spell(bytes([byte])): byte for byte in range(256)} | {"\u2581": 256, "\u2582": 257}
    settings = small.tokenizer_json(vocab=vocab, merges=[])
    reference = tokenizers.Tokenizer.from_str(json.dumps(settings | {"added_tokens": []}))
    reference.add_tokens(listed)
    tokenizer = Tokenizer.from_str(reference.to_str()).add_tokens(["<new>", "\u2582", "Ā"])
    reference.add_tokens(["<new>", "\u2582", "Ā"])
    for content in ("<new>", "\u2582", "Ā"):
        wanted = reference.token_to_id(content)
        assert {token.content: token.id for token in tokenizer.added_tokens}[content] == wanted
