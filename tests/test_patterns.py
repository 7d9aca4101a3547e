r"""Split rules by the table walker against the references: the patterns of real tokenizers, and one for each construct.

``tokenizers`` shows its pieces. tiktoken does not, but a vocabulary of all substrings of a text makes each piece one
token.
"""

import random
import re
from collections.abc import Callable

import numpy as np
import pytest
import tiktoken

import texts
from cutting import Cutter, reference, reference_pieces
from numbatok.errors import VocabularyError
from numbatok.patterns import syntax
from numbatok.patterns.rules import Dialect, Split

GPT2 = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
CL100K = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]"
    r"|\s+(?!\S)|\s"
)
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
    r"\s?["
    r"A-Za-z\x{b5}\x{c0}-\x{d6}\x{d8}-\x{f6}\x{f8}-\x{1ba}\x{1bc}-\x{1bf}\x{1c4}-\x{293}\x{295}-\x{2af}\x{370}-"
    r"\x{373}\x{376}\x{377}\x{37b}-\x{37d}\x{37f}\x{386}\x{388}-\x{38a}\x{38c}\x{38e}-\x{3a1}\x{3a3}-\x{3f5}"
    r"\x{3f7}-\x{481}\x{48a}-\x{52f}\x{531}-\x{556}\x{10a0}-\x{10c5}\x{13a0}-\x{13f5}\x{13f8}-\x{13fd}\x{1c90}-"
    r"\x{1cba}\x{1cbd}-\x{1cbf}\x{1d00}-\x{1d2b}\x{1d6b}-\x{1d77}\x{1d79}-\x{1d9a}\x{1e00}-\x{1f15}\x{1f18}-"
    r"\x{1f1d}\x{1f20}-\x{1f45}\x{1f48}-\x{1f4d}\x{1f50}-\x{1f57}\x{1f59}\x{1f5b}\x{1f5d}\x{1f5f}-\x{1f7d}"
    r"\x{1f80}-\x{1fb4}\x{1fb6}-\x{1fbc}\x{1fbe}\x{1fc2}-\x{1fc4}\x{1fc6}-\x{1fcc}\x{1fd0}-\x{1fd3}\x{1fd6}-"
    r"\x{1fdb}\x{1fe0}-\x{1fec}\x{1ff2}-\x{1ff4}\x{1ff6}-\x{1ffc}\x{2102}\x{2107}\x{210a}-\x{2113}\x{2115}"
    r"\x{2119}-\x{211d}\x{2124}\x{2126}\x{2128}\x{212a}-\x{212d}\x{212f}-\x{2134}\x{2139}\x{213c}-\x{213f}"
    r"\x{2145}-\x{2149}\x{214e}\x{2183}\x{2184}\x{2c00}-\x{2c7b}\x{2c7e}-\x{2ce4}\x{2ceb}-\x{2cee}\x{2cf2}"
    r"\x{2cf3}\x{a640}-\x{a66d}\x{a680}-\x{a69b}\x{a722}-\x{a76f}\x{a771}-\x{a787}\x{a78b}-\x{a78e}\x{ab70}-"
    r"\x{abbf}\x{fb00}-\x{fb06}\x{fb13}-\x{fb17}\x{ff21}-\x{ff3a}\x{ff41}-\x{ff5a}\x{10400}-\x{1044f}\x{104b0}-"
    r"\x{104d3}\x{104d8}-\x{104fb}\x{10c80}-\x{10cb2}\x{10cc0}-\x{10cf2}\x{118a0}-\x{118df}\x{1e900}-\x{1e943}"
    r"]+"
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
    r"\p{Lu}\p{Ll}*|\P{L}+|\p{L}",
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
ONLY_ONIGURUMA = [
    r"\p{N}{1,3}+",
    r"a{2}?b|a",
    r"\s+$|\S+$",
    r"a(?i)b|c",
    r"[+--]+",
    r"(?m:.)+|a",
    r"[[:alpha:]]+|[[:punct:]]",
    r"\w+|[\W²]+",
    r"\pL|\p{Lu}+",
]
ONLY_RUST = [
    CL100K,
    r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s",
    r"\p{N}{1,3}+\p{L}?|.",
    r"\s+$|\S",
    r"[\p{L}--[aeiou]]+|[a-f~~d-k]",
    r"(?i:ss|st|fi)|\p{L}",
    r"(?s:.)+?",
    r"[[:alpha:]]+|[[:punct:]]+",
    r"\pL\PL|\w+|(?i:\p{Lu})\u{3000}?",
]

#: Characters at the borders of the classes that the patterns speak of.
BORDERS = (
    list("abcABCkKsSxyzſKǅǆǄéÉσςΣßŉﬁİıʕªⅧⅷ①²½٣०'’ʼ`´0123456789 \t\r\n\v\f\x1c\x85\xa0\u3000\u2028\ufeff")
    + list(
        ".,!?…。、-_/\\^&{}[]<>|~$+=@#%*()\u200d\u200b\u00ad\u0301\u0903\u20dd\ufe0f\U0001f600一龥龦ぁァー々〆가힣ก\u0e31अ\u093eבא中𠀀"
    )
    + [
        "'s",
        "'S",
        "'ſ",
        "'ll",
        "'Ll",
        "'re",
        "\r\n",
        "  ",
        "\n\n",
        " \n",
        "<|endoftext|>",
        "ss",
        "st",
        "abc",
        "abb",
        "ab",
    ]
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


@pytest.mark.parametrize("name", ["o200k", "kimi", "clip", "deepseek v3", "deepseek llm", "falcon"])
def test_corpora(name: str, corpus_text: str) -> None:
    """Text in many languages and scripts."""
    rule, text = REAL[name], corpus_text[:40_000]
    assert Cutter(*rule).pieces(text, 128) == reference_pieces(reference(*rule), text)


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
    check_pieces_in_rust(pattern, Cutter(Split(pattern, "removed", invert=True)).pieces)


def check_pieces_in_rust(pattern: str, pieces_of: Callable[[str], list[tuple[int, int]]]) -> None:
    """Compare the pieces that are kept with those of tiktoken."""
    batch = [text[:16] for text in inputs(5, 160)]
    for text, expected in zip(batch, tiktoken_pieces(pattern, batch), strict=True):
        content = text.encode()
        assert [content[a:b] for a, b in pieces_of(text)] == expected, text


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
def test_refused(pattern: str, dialect: Dialect) -> None:
    """What can't be compiled is named, with the pattern."""
    with pytest.raises(VocabularyError, match=re.escape(REFUSED[pattern])) as error:
        Cutter(Split(pattern, dialect=dialect))
    assert repr(pattern)[1:20] in str(error.value)


@pytest.mark.parametrize("pattern", [r"(?i:ss)", r"(?i:ß)", r"(?i)stop", r"(?i:ﬁ)", r"(?i:[ß-ÿ])"])
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
            pattern[place : place + rng.randint(0, 2)] = rng.choice(
                ["", "(", ")", "[", "]", "*", "+", "?", "{2}", "|", "\\", "a", "^", "-", "&&"]
            )
        try:
            syntax.parse("".join(pattern), rng.choice(["rust", "oniguruma"]))
            outcomes[0] += 1
        except VocabularyError:
            outcomes[1] += 1
    assert (outcomes > 100).all()
