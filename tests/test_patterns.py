r"""Split rules by the table walker against the references: the patterns of real tokenizers, and one for each construct.

``tokenizers`` shows its pieces. tiktoken does not, but a vocabulary of all substrings of a text makes each piece one
token.
"""

import random
import re

import numpy as np
import pytest
import tiktoken

import texts
from cutting import Cutter, reference, reference_pieces
from numbatok.errors import VocabularyError
from numbatok.patterns import syntax
from numbatok.patterns.rules import Split

GPT2 = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+"
)
_UPPER, _LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_TEKKEN_LETTERS = rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+", rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*"
_SUFFIX = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
_REST = r" ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
O200K = "|".join([*(letters + _SUFFIX for letters in _TEKKEN_LETTERS), r"\p{N}{1,3}", _REST])
TEKKEN = "|".join([*_TEKKEN_LETTERS, r"\p{N}", _REST])
_NO_HAN = "[" + r"\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]" + "]", "[" + r"\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]" + "]"
KIMI = "|".join(
    [
        r"[\p{Han}]+",
        rf"[^\r\n\p{{L}}\p{{N}}]?{_NO_HAN[0]}*{_NO_HAN[1]}+{_SUFFIX}",
        rf"[^\r\n\p{{L}}\p{{N}}]?{_NO_HAN[0]}+{_NO_HAN[1]}*{_SUFFIX}",
        r"\p{N}{1,3}",
        r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    ]
)
DEEPSEEK_V3 = (
    r"\p{N}{1,3}",
    "[一-龥぀-ゟ゠-ヿ]+",
    r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^"""
    + "\r\n"
    + r"\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+["
    + "\r\n"
    + r"]*|\s*[\r\n]+|\s+(?!\S)|\s+",
)
DEEPSEEK_LETTERS = (
    r"\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-ώᾀ-ᾴᾶ-ᾼιῂ-ῄῆ-ῌῐ-ΐῖ-Ίῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤΩℨK-ℭℯ-ℴℹℼ-ℿⅅ-ⅉ"
    r"ⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃]+"
)


def onig(pattern: str, behavior="isolated", invert: bool = False) -> Split:
    """A step as a ``tokenizer.json`` has it."""
    return Split(pattern, behavior, invert, "oniguruma")


#: The rules of the files in the test data, and of other tokenizers that people use, as ``tokenizers`` runs them.
REAL = {
    "gpt2": (onig(GPT2),),
    "llama3": (onig(LLAMA3),),
    "llama3 dropping": (onig(LLAMA3, "removed", True),),
    "qwen2": (onig(LLAMA3.replace("{1,3}", "")),),
    "qwen3.5": (
        onig(
            r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*"
            r"|\s*[\r\n]+|\s+(?!\S)|\s+"
        ),
    ),
    "o200k": (onig(O200K),),
    "tekken": (onig(TEKKEN),),
    "kimi": (onig(KIMI),),
    "clip": (
        onig(
            r"<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+",
            "removed",
            True,
        ),
    ),
    "deepseek v3": tuple(map(onig, DEEPSEEK_V3)),
    "deepseek coder": tuple(map(onig, ["[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", "[一-龥ࠀ-一가-퟿]+", r"\p{N}"])),
    "deepseek llm": tuple(
        map(
            onig,
            ["[\r\n]", DEEPSEEK_LETTERS, r"\s?[!-/:-~！-／：-～‘-‟　-。]+", r"\s+$", "[一-龥ࠀ-一가-퟿]+", r"\p{N}+"],
        )
    ),
    "falcon": (onig(r"\p{P}", "contiguous"), onig(GPT2), onig(r"\p{N}+"), onig("[0-9][0-9][0-9]")),
    "starcoder": (onig(r"\p{N}"), onig(GPT2)),
    "bloom": (onig(r" ?[^(\s|[.,!?…。，、।۔،])]+"),),
    "gemma": (onig(" ", "merged_with_previous"),),
    "chatglm": (onig("<!dummy-prefix!>", "merged_with_next"),),
    "olmo2 and phi4 with possessive repeats": (
        onig(
            r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]"
            r"|\s+(?!\S)|\s+"
        ),
    ),
}

#: One pattern or more for each construct, in both dialects unless it is in ONLY_ONIGURUMA or ONLY_RUST.
CONSTRUCTS = [
    r"a|ab|abc",
    r"(?:a|ab)(?:c|bcd)?",
    r"(a)(?<name>b)(?#comment)|c",
    r"a*?b|c+?",
    r"\p{L}{2,4}",
    r"\p{L}{2,4}?x?",
    r"\p{L}{3,}",
    r"(?:ab|c){2,3}",
    r"\p{L}++'?",
    r"\p{N}*+x|\p{N}",
    r" ?+\p{L}+",
    r"(?>\p{L}+)",
    r"(?>a|b)c",
    r"(?>\p{L}\p{N})+",
    r"[a-cx-z]+|[^a-z]",
    r"[\p{L}&&[^aeiou]]+",
    r"[a-z&&b-y&&[^m]]+",
    r"[^a-z&&[^b]]+",
    r"[[a-c][^\p{L}]]+",
    r"[]a-]+|[^]b]",
    r"[\]\-\\^&]+",
    r"[\s\d]+|[^\S\n]+|[^\W\d]+",
    r"\S+|\D",
    r"\h+|\H",
    r"\p{Lu}\p{Ll}*|\P{L}+|\pL",
    r"\p{^L}+|\p{Letter}",
    r"\p{Han}+|\p{Hiragana}+|\p{Katakana}+|\p{Hangul}+|\p{Thai}+|\p{Arabic}+|\p{Cyrillic}+|\p{Latin}+",
    r"\p{Greek}+|\p{Devanagari}+|\p{Hebrew}+|\p{Common}+",
    r"\p{Alphabetic}+|\p{White_Space}+|\p{Lowercase}|\p{Any}",
    r"\x41|\x{3000}|\u4e00|\t|\n|\r|\.",
    r"(?i:k)|(?i)s+|\p{N}",
    r"(?i:[a-z])+",
    r"(?i:σ|ǆ|é)+|(?-i:K)",
    r".+",
    r".",
    r"\s+(?!\S)|\s+",
    r"\p{L}+(?=\p{N})|\p{L}",
    r"\p{L}+(?!'|\p{N})|'",
    r"a+(?= |b)|a",
    r"\s+\z|\S+",
    r"a{2}|{|}|]",
    r"ab+c|abb|b",
    r"\p{N}+(?:[.,]\p{N}+)*",
    r"https?://\S+|\w+",
]
ONLY_ONIGURUMA = [r"\p{N}{1,3}+", r"a{2}?b|a", r"\s+$|\S+$", r"a(?i)b|c", r"[a--]+", r"(?m:.)+|a", r"[[:alpha:]]+|[[:punct:]]", r"\w+"]
ONLY_RUST = [
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s",
    r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s",
    r"\p{N}{1,3}+\p{L}?|.",
    r"\s+$|\S",
    r"[\p{L}--[aeiou]]+|[a-f~~d-k]",
    r"(?i:ss|st|fi)|\p{L}",
    r"(?s:.)+?",
    r"[[:alpha:]]+|[[:punct:]]+",
    r"\w+|(?i:\p{Lu})\u{3000}?",
]

#: Characters at the borders of the classes that the patterns speak of.
BORDERS = (
    list("abcABCkKsSxyzſKǅǆǄéÉσςΣßŉﬁİıʕªⅧⅷ①²½٣०'’ʼ`´0123456789 \t\r\n\v\f\x1c\x85\xa0\u3000\u2028\ufeff")
    + list(".,!?…。、-_/\\^&{}[]<>|~$+=@#%*()\u200d\u200b\u00ad\u0301\u0903\u20dd\ufe0f\U0001f600一龥龦ぁァー々〆가힣ก\u0e31अ\u093eבא中𠀀")
    + ["'s", "'S", "'ſ", "'ll", "'Ll", "'re", "\r\n", "  ", "\n\n", " \n", "<|endoftext|>", "ss", "st", "abc", "abb", "ab"]
)


def inputs(seed: int, count: int) -> list[str]:
    """Texts of mixed scripts and of borders, now and then of a block's length."""
    rng = random.Random(seed)
    found = []
    for _ in range(count):
        size = rng.choice([1, 2, 3, 5, 8, 13, 24, 40, 63, 64, 65, 66])
        if rng.random() < 0.3:
            text = texts.random_text(rng, size)
        else:
            alphabet = rng.sample(BORDERS, rng.choice([2, 4, 8, 30]))
            text = "".join(rng.choices(alphabet, k=size))
        found.append(text)
    return found


def check(rule: tuple[Split, ...], count: int, seed: int) -> None:
    """Compare the walker with ``tokenizers`` on ``count`` texts, whole and, now and then, in chunks of one block."""
    cutter, steps = Cutter(*rule), reference(*rule)
    for number, text in enumerate(inputs(seed, count)):
        expected = reference_pieces(steps, text)
        assert cutter.pieces(text) == expected, text
        if number % 4 == 0:
            assert cutter.pieces(text, 1) == expected, text


@pytest.mark.parametrize("name", REAL)
def test_real_rules(name: str) -> None:
    """The rules of real tokenizers, as ``tokenizers`` cuts by them."""
    check(REAL[name], 1500, 1)


@pytest.mark.parametrize("pattern", [*CONSTRUCTS, *ONLY_ONIGURUMA])
def test_constructs(pattern: str) -> None:
    """Each construct, with the behaviours in turn."""
    behaviors = [
        ("isolated", False),
        ("removed", False),
        ("removed", True),
        ("merged_with_previous", False),
        ("merged_with_previous", True),
        ("merged_with_next", False),
        ("merged_with_next", True),
        ("contiguous", False),
        ("contiguous", True),
        ("isolated", True),
    ]
    for seed, (behavior, invert) in enumerate(behaviors):
        check((onig(pattern, behavior, invert),), 150, seed)


def tiktoken_pieces(pattern: str, batch: list[str]) -> list[list[bytes]]:
    """The pieces of each text by tiktoken, which drops what does not match."""
    tokens = {bytes([byte]) for byte in range(256)}
    for text in batch:
        content = text.encode()
        tokens |= {content[a:b] for a in range(len(content)) for b in range(a + 1, len(content) + 1)}
    ordered = sorted(tokens, key=lambda token: (len(token), token))
    encoding = tiktoken.Encoding(
        "all", pat_str=pattern, mergeable_ranks={token: rank for rank, token in enumerate(ordered)}, special_tokens={}
    )
    return [[ordered[id] for id in encoding.encode_ordinary(text)] for text in batch]


@pytest.mark.parametrize("pattern", [*CONSTRUCTS, *ONLY_RUST, GPT2, LLAMA3, O200K, TEKKEN, KIMI])
def test_constructs_in_rust(pattern: str) -> None:
    """The same patterns as tiktoken reads them."""
    cutter = Cutter(Split(pattern, "removed", invert=True))
    batch = [text[:24] for text in inputs(5, 240)]
    for text, expected in zip(batch, tiktoken_pieces(pattern, batch), strict=True):
        content = text.encode()
        assert [content[a:b] for a, b in cutter.pieces(text)] == expected, text


REFUSED = {
    r"(a)\1": "back-reference",
    r"(?<=a)b": "look-behind",
    r"(?<!a)b": "look-behind",
    r"^a": "looks behind",
    r"\Aa": "start of the text",
    r"\bx": "looks behind",
    r"a\Z": "two characters ahead",
    r"\Gx": "start of the match",
    r"a(?=bc)": "look-ahead",
    r"a(?!b+)": "look-ahead",
    r"a*": "empty text",
    r"": "empty text",
    r"a|": "empty text",
    r"(?=a)": "empty text",
    r"(?:a*)*b": "match nothing",
    r"(?>a|ab)c": "atomic",
    r"(?:ab|a)++b": "possessive",
    r"(?:ab)?+c": "possessive",
    r"a{1000000}": "too large",
    r"a{100000}": "too large",
    r"(?:(?:a{100}){100}){100}": "too large",
    r"(?:a|b)*a(?:a|b){20}": "too large",
    "(" * 100 + "a" + ")" * 100: "nested",
    "[" * 100 + "a" + "]" * 100: "nested",
    "(" * 100_000: "nested",
    r"(a": "without its",
    r"a)": "without its",
    r"[a": "without its",
    r"[b-a]": "backwards",
    r"[a-\d]": "end of a range",
    r"*a": "repeats nothing",
    r"a**": "repeat of a repeat",
    r"a{3,2}": "wrong order",
    r"\p{Nothing}": "not known",
    r"\p{L": "without its",
    r"[[:nothing:]]": "not known",
    r"\x{110000}": "no character",
    r"\ud800": "no character",
    r"\xg": "hexadecimal",
    r"\y": "not known",
    r"\X": "grapheme",
    "a\\": "pattern ends",
    r"(?x)a": "not supported",
    r"(?P>a)": "not supported",
    "(?<name": "without its",
    "(?#a": "without its",
}


@pytest.mark.parametrize("pattern", REFUSED)
@pytest.mark.parametrize("dialect", ["rust", "oniguruma"])
def test_refused(pattern: str, dialect: syntax.Syntax) -> None:
    """What can't be compiled is named, with the pattern."""
    with pytest.raises(VocabularyError, match=re.escape(REFUSED[pattern])) as error:
        Cutter(Split(pattern, syntax=dialect))
    assert repr(pattern)[1:20] in str(error.value)


@pytest.mark.parametrize("pattern", [r"(?i:ss)", r"(?i:ß)", r"(?i)stop", r"(?i:ﬁ)", r"(?i:[à-ÿ])"])
def test_long_folds_are_refused(pattern: str) -> None:
    """Oniguruma folds some characters to several; Rust does not."""
    with pytest.raises(VocabularyError, match=r"\(\?i\)"):
        Cutter(onig(pattern))
    Cutter(Split(pattern))


def test_damaged_patterns() -> None:
    """Any pattern compiles or is a VocabularyError, soon."""
    rng = random.Random(4)
    sources = [*CONSTRUCTS, *ONLY_RUST, O200K, KIMI, DEEPSEEK_V3[2]]
    outcomes = np.zeros(2, int)
    for _ in range(1500):
        pattern = list(rng.choice(sources))
        for _ in range(rng.randint(1, 3)):
            place = rng.randrange(len(pattern))
            pattern[place : place + rng.randint(0, 2)] = rng.choice(["", "(", ")", "[", "]", "*", "+", "?", "{2}", "|", "\\", "a", "^", "-", "&&"])
        try:
            syntax.parse("".join(pattern), rng.choice(["rust", "oniguruma"]))
            outcomes[0] += 1
        except VocabularyError:
            outcomes[1] += 1
    assert (outcomes > 100).all()
