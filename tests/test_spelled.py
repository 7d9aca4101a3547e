r"""Steps behind a ByteLevel, which see bytes as characters of the byte alphabet, against ``tokenizers``."""

import json
import random
from itertools import accumulate, pairwise

import pytest
import tokenizers

import small
import texts
from cutting import Cutter
from numbatok import Tokenizer
from numbatok.loading.components import pre_tokenizer
from numbatok.patterns import known
from numbatok.patterns.compile import compile_rule
from numbatok.patterns.fallback import compile_with_regex
from numbatok.patterns.rules import Split, SplitRule
from test_fallback import pieces as regex_pieces

Span = tuple[int, int]

GPT2_BYTES = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
BYTES = {**GPT2_BYTES, "use_regex": False}
RUNS_OF_DIGITS = {"type": "Digits", "individual_digits": False}
DIGITS = {"type": "Digits", "individual_digits": True}


def split(pattern: str, behavior: str = "Isolated", invert: bool = False) -> dict:
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": behavior, "invert": invert}


#: By what they try: pre-tokenizers in sequence.
SEQUENCES = {
    "falcon": [{"type": "Punctuation", "behavior": "Contiguous"}, GPT2_BYTES, RUNS_OF_DIGITS, split("[0-9][0-9][0-9]")],
    "runs of digits": [BYTES, RUNS_OF_DIGITS],
    "digits": [GPT2_BYTES, DIGITS],
    "digits twice": [DIGITS, BYTES, DIGITS, split("[a-c]+")],
    "punctuation": [BYTES, {"type": "Punctuation", "behavior": "MergedWithNext"}],
    "words": [BYTES, {"type": "Whitespace"}],
    "no white space": [GPT2_BYTES, {"type": "WhitespaceSplit"}],
    "plain, then spelled": [BYTES, split("[0-9]"), split(r"\p{Lu}+", "Contiguous")],
    "groups of three": [GPT2_BYTES, split(r"\p{N}{1,3}")],
    "merged with the previous": [BYTES, split(r"\p{N}|\p{S}", "MergedWithPrevious")],
    "removed": [BYTES, split(r"\p{Lu}|Ġ", "Removed")],
    "inverted": [BYTES, split(r"\p{Ll}+", "Removed", True), split(r"[\w&&[^a-z]]|²|à", "MergedWithNext")],
    "overruns": [BYTES, split(r"\p{Lu}\p{No}{1,9}!|\p{L}{2}", "Contiguous")],
    "anything": [BYTES, split(".")],
}
#: Characters with bytes that are digits, capitals or punctuation in the alphabet, and digits of all widths.
ATOMS = [
    *("a", "b", "é", "ò", "ó", "ù", "ü", "½", "¾", "²", "³", "¹", "«", "¡", "÷", "\u00a0", "²1234", "x²12", "1²"),
    *("12345", "\u0301"),
    *("0", "7", "123", "٣", "３", "Ⅷ", "𝟘", "०", "ก", "ฒ", "ำ", "中", "文", "龥", "が", "한", "😀", "𠀀", "я", "в"),
    *(" ", "  ", "\n", "\r\n", "\t", "\x00", "\x7f", ".", "!", "!!", "'s", "'ll", "(", "$", "…", "。", "\u3000", "Z"),
]


def inputs(name: str, count: int) -> list[str]:
    """Generated texts, from one atom to several blocks."""
    rng = random.Random(name)
    found = ["", "²1234", "²12", "xòab", "½", "ò" * 70, "1" * 130, "²" * 65 + "1234567"]
    for _ in range(count):
        few = rng.sample(ATOMS, rng.choice((1, 2, 4, 12, len(ATOMS))))
        found.append("".join(rng.choices(few, k=rng.choice((1, 3, 8, 30, 120)))))
        found.append(texts.random_text(rng, rng.choice((5, 40, 90))))
    return found


def settings(name: str) -> dict:
    return {"type": "Sequence", "pretokenizers": SEQUENCES[name]}


def rule_of(name: str) -> SplitRule:
    """As the loader makes it."""
    return pre_tokenizer(settings(name)).rule


def reference(name: str) -> tokenizers.Tokenizer:
    content = {**small.tokenizer_json(), "pre_tokenizer": settings(name)}
    return tokenizers.Tokenizer.from_str(json.dumps(content))


def spelled(text: str, kept: list[Span]) -> list[str]:
    """Pieces, given in bytes, in the byte alphabet."""
    alphabet = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    whole = "".join(piece for piece, _ in alphabet.pre_tokenize_str(text))
    return [whole[begin:end] for begin, end in kept]


@pytest.mark.parametrize("name", SEQUENCES)
def test_pieces(name: str) -> None:
    """The table walker, whole and in chunks of a block, and ``regex`` cut as the reference does."""
    rule, steps = rule_of(name), reference(name).pre_tokenizer
    assert any(step.spelled for step in rule)
    cutter, by_regex = Cutter(*rule), compile_with_regex(rule)
    for text in inputs(name, 150):
        wanted = [piece for piece, _ in steps.pre_tokenize_str(text)]
        found = cutter.pieces(text)
        assert spelled(text, found) == wanted, text
        assert cutter.pieces(text, 1) == found, text
        assert regex_pieces(by_regex, text) == found, text


@pytest.mark.parametrize("name", SEQUENCES)
def test_ids(name: str) -> None:
    """A tokenizer with such a rule, on single texts and all of them as one."""
    theirs = reference(name)
    ours = Tokenizer.from_str(theirs.to_str())
    found = inputs(name, 40)
    for text in [*found, "".join(found) * 20]:
        assert ours.encode(text).tolist() == theirs.encode(text).ids, text[:200]


def test_falcon_is_recognised() -> None:
    """However its steps are written, its mask walker cuts; not where a step sees characters."""
    rule = known.WALKS["falcon"].rules[0]
    assert known.walk_of(rule_of("falcon")) == "falcon"
    assert known.walk_of((*rule[:2], Split(r"[\p{is_numeric}]", "contiguous", spelled=True), rule[3])) == "falcon"
    assert known.walk_of((*rule[:2], rule[2], Split(r"[0-9]{3}", spelled=True))) == "falcon"
    assert known.walk_of((*rule[:2], Split(rule[2].pattern, "contiguous"), rule[3])) is None


def test_steps_after_a_spelled_one_are_spelled() -> None:
    """Whether they are marked or not."""
    first, second = Split("[a-c]", spelled=True), r"\p{Lu}"
    marked, unmarked = (first, Split(second, spelled=True)), (first, Split(second))
    assert compile_rule(marked).digest == compile_rule(unmarked).digest
    assert Cutter(*marked).pieces("aéb") == Cutter(*unmarked).pieces("aéb") == [(0, 1), (1, 2), (2, 3), (3, 4)]
    assert compile_rule((Split(second),)).digest != compile_rule((Split(second, spelled=True),)).digest


def test_linear_time() -> None:
    """Overruns that fail again and again are marked, by bytes as by characters."""
    cutter = Cutter(Split(r"\p{Lu}+!|\p{L}", spelled=True))
    text = "à" * 40_000
    steps = tokenizers.pre_tokenizers.Sequence(
        [tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    assert "".join(piece for piece, _ in steps.pre_tokenize_str("à")) == "Ãł"
    assert cutter.pieces(text) == list(pairwise(accumulate([1] * 80_000, initial=0)))
