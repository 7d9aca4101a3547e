r"""The split rules that have a mask walker, by their regular expressions.

A rule is recognised by its patterns, never by a file's name. Spellings that cut alike share a walk; where a rule's
matches leave no gap, ``removed`` with ``invert`` cuts as ``isolated`` does.
"""

import functools
import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from numbatok.kernels import dtypes
from numbatok.patterns import unicode
from numbatok.patterns.rules import GPT2, Behavior, Dialect, Split, SplitRule

#: The patterns of tiktoken's encodings that others spell in another way. ``{1,3}+`` repeats a repeat for Oniguruma.
TIKTOKEN_GPT2 = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s"
TIKTOKEN_CL100K = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|"
    r"\s+(?!\S)|\s"
)
_CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#: What the pre-tokenizers Digits and Punctuation of ``tokenizers`` match, as patterns.
DIGITS = r"\p{is_numeric}"
PUNCTUATION = r"\p{is_punctuation}"
_KEEPING: tuple[Behavior, ...] = ("isolated", "removed")
_DIALECTS: tuple[Dialect, ...] = ("rust", "oniguruma")
_BLANKS = r"\s*[\r\n]+|\s+(?!\S)|\s+"


def cl100k_pattern(digits: str) -> str:
    r"""cl100k's pattern with ``digits`` for numbers (``"\p{N}{1,3}"``)."""
    return rf"{_CONTRACTIONS}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|{digits}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|{_BLANKS}"


def o200k_pattern(digits: str, suffix: str = "", ends: str = r"[\r\n/]*", first: str = "", without: str = "") -> str:
    r"""o200k's pattern: its digits, contractions, what follows others, what comes first, and what is no letter then."""
    upper = rf"[\p{{Lu}}\p{{Lt}}\p{{Lm}}\p{{Lo}}\p{{M}}{without}]"
    lower = rf"[\p{{Ll}}\p{{Lm}}\p{{Lo}}\p{{M}}{without}]"
    prefix = r"[^\r\n\p{L}\p{N}]?"
    words = rf"{prefix}{upper}*{lower}+{suffix}|{prefix}{upper}+{lower}*{suffix}"
    return rf"{first}{words}|{digits}| ?[^\s\p{{L}}\p{{N}}]+{ends}|{_BLANKS}"


def _gapless(*patterns: str, dialects: tuple[Dialect, ...] = _DIALECTS) -> tuple[SplitRule, ...]:
    """The rules of patterns that match any text without a gap: isolated, and as what is left of their inverse."""
    return tuple(
        (Split(pattern, behavior, behavior == "removed", dialect),)
        for behavior, pattern, dialect in itertools.product(_KEEPING, patterns, dialects)
    )


def _in_each_dialect(*steps: Split) -> tuple[SplitRule, ...]:
    """The rule of these steps in the reading of either engine, the same for both."""
    return tuple(tuple(replace(step, dialect=dialect) for step in steps) for dialect in _DIALECTS)


@dataclass(frozen=True)
class Walk:
    """How a rule is walked.

    Attributes
    ----------
    kernel : name of the kernel
    classes : makes the classes of all code points, uint8[0x110000] of the bits in :mod:`numbatok.kernels.dtypes`
    rules : the spellings; the first stands for all
    parameters : value of each field of the view that tells the walks of one kernel apart, VIEW_GROUP and VIEW_OPTIONS
    drops : whether some pieces are dropped, and so marked in WORK_DROPPED
    """

    kernel: str
    classes: Callable[[], npt.NDArray[np.uint8]]
    rules: tuple[SplitRule, ...]
    parameters: Mapping[int, int] = field(default_factory=dict)
    drops: bool = False


def _marked(**groups: npt.NDArray[np.bool_]) -> npt.NDArray[np.uint8]:
    """Classes of code points: the bit of each name in the dtypes module where its array is true."""
    points = np.zeros(unicode.CODE_POINTS, np.uint8)
    for name, members in groups.items():
        points[members] |= np.uint8(getattr(dtypes, name))
    return points


def _plain_classes() -> npt.NDArray[np.uint8]:
    """Letters, numbers, white space."""
    return _marked(LETTER=unicode.in_categories("L"), NUMBER=unicode.in_categories("N"), SPACE=unicode.white_space())


def _classes_with_marks() -> npt.NDArray[np.uint8]:
    """The same with marks among the letters."""
    return _plain_classes() | _marked(LETTER=unicode.in_categories("M"))


def _cased_classes() -> npt.NDArray[np.uint8]:
    """The same with marks by themselves, and letters of one case."""
    return _plain_classes() | _marked(
        MARK=unicode.in_categories("M"),
        UPPER=unicode.in_categories("Lu") | unicode.in_categories("Lt"),
        LOWER=unicode.in_categories("Ll"),
    )


def _classes_with_han() -> npt.NDArray[np.uint8]:
    """The same with Han, whose marks count as no marks."""
    points = _cased_classes()
    han = unicode.in_named_set("han")
    points[han] = points[han] & ~np.uint8(dtypes.MARK) | np.uint8(dtypes.SCRIPT)
    return points


def _deepseek_classes() -> npt.NDArray[np.uint8]:
    """Letters with marks, punctuation with symbols, and the script that the second step cuts out."""
    script = np.zeros(unicode.CODE_POINTS, np.bool_)
    script[0x3040:0x3100] = script[0x4E00:0x9FA6] = True
    return _classes_with_marks() | _marked(
        PUNCTUATION=unicode.in_categories("P") | unicode.in_categories("S"), SCRIPT=script
    )


def _digit_classes() -> npt.NDArray[np.uint8]:
    """The plain classes and what Digits matches."""
    return _plain_classes() | _marked(DIGIT=unicode.in_named_set("isnumeric"))


def _falcon_classes() -> npt.NDArray[np.uint8]:
    """The plain classes and what Punctuation matches."""
    return _plain_classes() | _marked(PUNCTUATION=unicode.in_named_set("ispunctuation"))


def _bloom_classes() -> npt.NDArray[np.uint8]:
    """What runs are made of: neither white space nor BLOOM's punctuation."""
    members = ~unicode.white_space()
    members[[ord(character) for character in "(|).,!?…。，、।۔،"]] = False
    return _marked(LETTER=members)


#: The pattern of o200k, as tiktoken spells it too.
O200K = o200k_pattern(r"\p{N}{1,3}", f"{_CONTRACTIONS}?")
_QWEN35 = (
    rf"{_CONTRACTIONS}|[^\r\n\p{{L}}\p{{N}}]?[\p{{L}}\p{{M}}]+|\p{{N}}| ?[^\s\p{{L}}\p{{M}}\p{{N}}]+[\r\n]*|{_BLANKS}"
)
_NOT_HAN = r"&&[^\p{Han}]"
_DEEPSEEK = (
    r"\p{N}{1,3}",
    "[一-龥぀-ゟ゠-ヿ]+",
    r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|"""
    + _BLANKS,
)
_GPT2_SPELLINGS = (
    GPT2,
    TIKTOKEN_GPT2,
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    r"'s|'t|'re|'ve|'m|'ll|'d| ?[\p{L}]+| ?[\p{N}]+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
)
_BLOOM = r" ?[^(\s|[.,!?…。，、।۔،])]+"
_CLIP = Split(
    r"<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+",
    "removed",
    invert=True,
)

#: Every walk by its name.
WALKS: dict[str, Walk] = {
    "r50k": Walk(
        "walk_r50k",
        _plain_classes,
        _gapless(*_GPT2_SPELLINGS),
    ),
    # Llama 3, Phi-4, OLMo 2, GLM-4, SmolLM3, and conversions of OpenAI's.
    "cl100k": Walk(
        "walk_cl100k",
        _plain_classes,
        _gapless(cl100k_pattern(r"\p{N}{1,3}")),
        {dtypes.VIEW_GROUP: 3},
    ),
    # tiktoken's. White space at the text's end is one pretoken: "\n  " there, which others cut after the line's end.
    "cl100k_whole_end": Walk(
        "walk_cl100k",
        _plain_classes,
        (
            *_gapless(cl100k_pattern(r"\p{N}{1,3}").replace(_BLANKS, rf"\s+\z|{_BLANKS}")),
            *_gapless(TIKTOKEN_CL100K, dialects=("rust",)),
        ),
        {dtypes.VIEW_GROUP: 3, dtypes.VIEW_OPTIONS: dtypes.WHOLE_END},
    ),
    # Qwen 1, 2, 2.5, 3.
    "qwen2": Walk("walk_cl100k", _plain_classes, _gapless(cl100k_pattern(r"\p{N}")), {dtypes.VIEW_GROUP: 1}),
    "cl100k_any_digits": Walk(
        "walk_cl100k", _plain_classes, _gapless(cl100k_pattern(r"\p{N}+")), {dtypes.VIEW_GROUP: 0}
    ),
    # Qwen 3.5, 3.6.
    "qwen3_5": Walk("walk_cl100k", _classes_with_marks, _gapless(_QWEN35), {dtypes.VIEW_GROUP: 1}),
    # GPT-4o, GPT-OSS, Llama 4.
    "o200k": Walk(
        "walk_o200k",
        _cased_classes,
        _gapless(O200K),
        {dtypes.VIEW_GROUP: 3, dtypes.VIEW_OPTIONS: dtypes.SUFFIX | dtypes.SLASHES},
    ),
    # Mistral's Tekken, Nemotron.
    "tekken": Walk(
        "walk_o200k",
        _cased_classes,
        _gapless(o200k_pattern(r"\p{N}")),
        {dtypes.VIEW_GROUP: 1, dtypes.VIEW_OPTIONS: dtypes.SLASHES},
    ),
    "kimi_k2": Walk(
        "walk_o200k",
        _classes_with_han,
        _gapless(o200k_pattern(r"\p{N}{1,3}", rf"{_CONTRACTIONS}?", r"[\r\n]*", r"[\p{Han}]+|", _NOT_HAN)),
        {dtypes.VIEW_GROUP: 3, dtypes.VIEW_OPTIONS: dtypes.SUFFIX | dtypes.SCRIPT_FIRST},
    ),
    # DeepSeek V3, V3.1, R1, V4.
    "deepseek_v3": Walk(
        "walk_deepseek",
        _deepseek_classes,
        (
            *_in_each_dialect(*map(Split, _DEEPSEEK)),
            *_in_each_dialect(*(Split(step.replace(r"\r\n", "\r\n")) for step in _DEEPSEEK)),
        ),
        {dtypes.VIEW_GROUP: 3},
    ),
    # StarCoder, Refact, Command-R.
    "starcoder": Walk(
        "walk_parts",
        _digit_classes,
        tuple(rule for gpt2 in _GPT2_SPELLINGS for rule in _in_each_dialect(Split(DIGITS), Split(gpt2))),
        {dtypes.VIEW_OPTIONS: dtypes.CUT_DIGITS},
    ),
    "falcon": Walk(
        "walk_parts",
        _falcon_classes,
        tuple(
            (
                Split(PUNCTUATION, "contiguous"),
                Split(gpt2),
                Split(DIGITS, "contiguous", spelled=True),
                Split("[0-9][0-9][0-9]", dialect="oniguruma"),
            )
            for gpt2 in _GPT2_SPELLINGS
        ),
        {dtypes.VIEW_OPTIONS: dtypes.CUT_PUNCTUATION},
    ),
    "bloom": Walk("walk_bloom", _bloom_classes, _in_each_dialect(Split(_BLOOM))),
    "clip": Walk("walk_clip", _plain_classes, _in_each_dialect(_CLIP), drops=True),
    # The same in a file whose ByteLevel cuts by GPT-2's rule too.
    "clip_cut_again": Walk(
        "walk_clip",
        _plain_classes,
        tuple(rule for gpt2 in _GPT2_SPELLINGS for rule in _in_each_dialect(_CLIP, Split(gpt2))),
        {dtypes.VIEW_OPTIONS: dtypes.CUT_TOKENS},
        drops=True,
    ),
}

#: Name of the walk of each known rule.
WALKERS: dict[SplitRule, str] = {rule: name for name, walk in WALKS.items() for rule in walk.rules}


#: What the automata of the walks' rules come to (:func:`numbatok.patterns.compile.compile_rule`), in part: any other
#: spelling of a rule has the same. A test compiles them all.
DIGESTS = {
    "4de7ad3f6aa23229": "r50k",
    "501becc78334f441": "cl100k",
    "b9ea297d21985c53": "cl100k_whole_end",
    "9af62e91803217ae": "qwen2",
    "07cfe8670695926a": "cl100k_any_digits",
    "fd18152a23550b81": "qwen3_5",
    "9aaed912bbd26871": "o200k",
    "f2bc3a982bc4a04e": "tekken",
    "ad1c356cf0594b82": "kimi_k2",
    "fb993365dc7676bc": "deepseek_v3",
    "16bc39224138ad3d": "starcoder",
    "3612ce9dee5f6d69": "falcon",
    "72b3df363c573ef8": "bloom",
    "e5740c81328f164a": "clip",
    "7ee197eddbae0dfe": "clip_cut_again",
}


def walk_of(rule: SplitRule) -> str | None:
    """The name of the walk that cuts as a rule does: by its spelling, else by its automaton; None if there is none.

    VocabularyError names what of a pattern can't be compiled.
    """
    name = WALKERS.get(rule)
    if name is None:
        from numbatok.patterns.compile import compile_rule

        name = DIGESTS.get(compile_rule(rule).digest.hex()[:16])
    return name


def canonical(rule: SplitRule) -> SplitRule:
    """The first spelling of a known rule, which stands for all that cut alike; another rule as it is."""
    name = walk_of(rule)
    return rule if name is None else WALKS[name].rules[0]


@functools.cache
def character_classes(name: str) -> npt.NDArray[np.uint8]:
    """The class table of a walk: uint8[2^21], one class a code point, OTHER past the last one, and ALIKE_BYTES."""
    table = np.full(dtypes.CLASS_TABLE_SIZE, dtypes.OTHER, np.uint8)
    table[: unicode.CODE_POINTS] = WALKS[name].classes()
    return np.concatenate([table, _alike(table)])


def _alike(classes: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """uint8[ALIKE_BYTES]: the longest runs of one class among the characters that begin alike, by their last byte.

    Characters of two bytes are U+0000 to U+07FF by 64, those of three U+0000 to U+FFFF: what is spelled in fewer bytes
    does not occur.
    """
    rows = np.concatenate([classes[:0x800], classes[:0x10000]]).reshape(-1, 64)
    is_start = np.ones(rows.shape, np.bool_)
    is_start[:, 1:] = rows[:, 1:] != rows[:, :-1]
    starts = np.flatnonzero(is_start)
    lengths = np.diff(starts, append=rows.size)
    row, first = starts // 64, starts % 64
    order = np.lexsort((first, -lengths, row))
    rank = np.arange(len(order)) - np.searchsorted(row, row[order])  # among the runs of its row, the longest first
    runs = np.zeros(len(rows), np.uint64)
    for number in range(dtypes.ALIKE_RUNS):
        chosen = order[rank == number]
        of_class = rows[row[chosen], first[chosen]].astype(np.uint64)
        packed = first[chosen].astype(np.uint64) | lengths[chosen].astype(np.uint64) << np.uint64(6)
        packed |= of_class << np.uint64(13)
        runs[row[chosen]] |= packed << np.uint64(dtypes.ALIKE_BITS * number)
    return runs.view(np.uint8)
