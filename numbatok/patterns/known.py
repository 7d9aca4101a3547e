r"""The split rules that have a mask walker, by their regular expressions.

A rule is recognised by its patterns, never by a file's name. Spellings that cut alike share a walk; where a rule's
matches leave no gap, ``removed`` with ``invert`` cuts as ``isolated`` does.
"""

import functools
import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from numbatok.patterns import unicode
from numbatok.patterns.rules import GPT2, Behavior, Split, SplitRule, Syntax

_CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_KEEPING: tuple[Behavior, ...] = ("isolated", "removed")
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


def _gapless(*patterns: str, syntaxes: tuple[Syntax, ...] = ("rust", "oniguruma")) -> tuple[SplitRule, ...]:
    """The rules of patterns that match any text without a gap: isolated, and as what is left of their inverse."""
    return tuple(
        (Split(pattern, behavior, behavior == "removed", syntax),)
        for behavior, pattern, syntax in itertools.product(_KEEPING, patterns, syntaxes)
    )


@dataclass(frozen=True)
class Walk:
    """How a rule is walked.

    Attributes
    ----------
    kernel : name of the kernel
    classes : makes the classes of all code points, uint8[0x110000] of the bits in :mod:`numbatok.kernels.dtypes`
    rules : the spellings; the first stands for all
    parameters : fields of the view that tell the walks of one kernel apart, by name
    drops : whether some pieces are dropped, and so marked in WORK_DROPPED
    """

    kernel: str
    classes: Callable[[], npt.NDArray[np.uint8]]
    rules: tuple[SplitRule, ...]
    parameters: Mapping[str, int] = field(default_factory=dict)
    drops: bool = False


def _marked(**groups: npt.NDArray[np.bool_]) -> npt.NDArray[np.uint8]:
    """Classes of code points: the bit of each name in the dtypes module where its array is true."""
    from numbatok.kernels import dtypes

    points = np.zeros(unicode.CODE_POINTS, np.uint8)
    for name, members in groups.items():
        points[members] |= np.uint8(getattr(dtypes, name))
    return points


def _plain_classes() -> npt.NDArray[np.uint8]:
    """Letters, numbers, white space."""
    return _marked(
        LETTER=unicode.in_categories("L"), NUMBER=unicode.in_categories("N"), SPACE=unicode.white_space()
    )


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
    from numbatok.kernels import dtypes

    points = _cased_classes()
    han = _members("han")
    points[han] = points[han] & ~np.uint8(dtypes.MARK) | np.uint8(dtypes.SCRIPT)
    return points


def _members(name: str) -> npt.NDArray[np.bool_]:
    """bool[0x110000]: the code points of a named set."""
    edges = np.zeros(unicode.CODE_POINTS + 1, np.int8)
    edges[unicode.named_sets()[name]] = 1
    members: npt.NDArray[np.bool_] = np.cumsum(edges)[:-1] % 2 == 1
    return members


_QWEN35 = (
    rf"{_CONTRACTIONS}|[^\r\n\p{{L}}\p{{N}}]?[\p{{L}}\p{{M}}]+|\p{{N}}| ?[^\s\p{{L}}\p{{M}}\p{{N}}]+[\r\n]*|{_BLANKS}"
)
#: tiktoken's, whose ``{1,3}+`` is a repeat of a repeat to Oniguruma.
_CL100K = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|"
    r"\s+(?!\S)|\s"
)
_NOT_HAN = r"&&[^\p{Han}]"

#: Every walk by its name.
WALKS: dict[str, Walk] = {
    "r50k": Walk(
        "walk_r50k",
        _plain_classes,
        _gapless(
            GPT2,
            r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s",
            r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
            r"'s|'t|'re|'ve|'m|'ll|'d| ?[\p{L}]+| ?[\p{N}]+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
        ),
    ),
    # OpenAI's pattern until tiktoken 0.9; Llama 3, Phi-4, OLMo 2, GLM-4, SmolLM3.
    "cl100k": Walk(
        "walk_cl100k",
        _plain_classes,
        _gapless(cl100k_pattern(r"\p{N}{1,3}")),
        {"VIEW_GROUP": 3},
    ),
    # White space at the end of the text is one pretoken: "\n  " there, which others cut after the line's end.
    "cl100k_whole_end": Walk(
        "walk_cl100k",
        _plain_classes,
        (
            *_gapless(cl100k_pattern(r"\p{N}{1,3}").replace(_BLANKS, rf"\s+\z|{_BLANKS}")),
            *_gapless(_CL100K, syntaxes=("rust",)),
        ),
        {"VIEW_GROUP": 3, "VIEW_OPTIONS": 1},
    ),
    "qwen2": Walk("walk_cl100k", _plain_classes, _gapless(cl100k_pattern(r"\p{N}")), {"VIEW_GROUP": 1}),
    "cl100k_any_digits": Walk("walk_cl100k", _plain_classes, _gapless(cl100k_pattern(r"\p{N}+")), {"VIEW_GROUP": 0}),
    "qwen3_5": Walk("walk_cl100k", _classes_with_marks, _gapless(_QWEN35), {"VIEW_GROUP": 1}),
    # GPT-4o, GPT-OSS, Llama 4.
    "o200k": Walk(
        "walk_o200k",
        _cased_classes,
        _gapless(o200k_pattern(r"\p{N}{1,3}", rf"{_CONTRACTIONS}?")),
        {"VIEW_GROUP": 3, "VIEW_OPTIONS": 1 | 2},
    ),
    # Mistral's Tekken, Nemotron.
    "tekken": Walk(
        "walk_o200k", _cased_classes, _gapless(o200k_pattern(r"\p{N}")), {"VIEW_GROUP": 1, "VIEW_OPTIONS": 2}
    ),
    "kimi_k2": Walk(
        "walk_o200k",
        _classes_with_han,
        _gapless(o200k_pattern(r"\p{N}{1,3}", rf"{_CONTRACTIONS}?", r"[\r\n]*", r"[\p{Han}]+|", _NOT_HAN)),
        {"VIEW_GROUP": 3, "VIEW_OPTIONS": 1 | 4},
    ),
}

#: Name of the walk of each known rule.
WALKERS: dict[SplitRule, str] = {rule: name for name, walk in WALKS.items() for rule in walk.rules}


def canonical(rule: SplitRule) -> SplitRule:
    """The first spelling of a known rule, which stands for all that cut alike; another rule as it is."""
    name = WALKERS.get(rule)
    return rule if name is None else WALKS[name].rules[0]


@functools.cache
def character_classes(name: str) -> npt.NDArray[np.uint8]:
    """The class table of a walk: uint8[2^21], one class a code point, OTHER past the last one."""
    from numbatok.kernels import dtypes

    table = np.full(dtypes.CLASS_TABLE_SIZE, dtypes.OTHER, np.uint8)
    table[: unicode.CODE_POINTS] = WALKS[name].classes()
    return table


def parameters(name: str) -> dict[int, int]:
    """Field and value of what a walk's kernel reads from the view besides the class table."""
    from numbatok.kernels import dtypes

    return {getattr(dtypes, key): value for key, value in WALKS[name].parameters.items()}
