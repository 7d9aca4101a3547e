r"""The classes that patterns speak of, as sets of code points, in the two dialects of the references.

``\p{...}``, ``\s``, ``\w``, ``[[:...:]]``, and what matches without regard to case. The tables are frozen: see
:mod:`numbatok.patterns.unicode`.
"""

import functools

import numpy as np

from numbatok.patterns import charsets, unicode
from numbatok.patterns.charsets import CharSet
from numbatok.patterns.rules import Dialect

HEX = charsets.from_ranges([(48, 57), (65, 70), (97, 102)])
_ASCII = charsets.from_ranges([(0, 127)])
_BLANK = charsets.from_ranges([(9, 9), (32, 32)])
_CATEGORY_NAMES = {
    "letter": "L",
    "casedletter": "LC",
    "uppercaseletter": "Lu",
    "lowercaseletter": "Ll",
    "titlecaseletter": "Lt",
    "modifierletter": "Lm",
    "otherletter": "Lo",
    "mark": "M",
    "combiningmark": "M",
    "nonspacingmark": "Mn",
    "spacingmark": "Mc",
    "enclosingmark": "Me",
    "number": "N",
    "decimalnumber": "Nd",
    "digit": "Nd",
    "letternumber": "Nl",
    "othernumber": "No",
    "punctuation": "P",
    "connectorpunctuation": "Pc",
    "dashpunctuation": "Pd",
    "openpunctuation": "Ps",
    "closepunctuation": "Pe",
    "initialpunctuation": "Pi",
    "finalpunctuation": "Pf",
    "otherpunctuation": "Po",
    "symbol": "S",
    "mathsymbol": "Sm",
    "currencysymbol": "Sc",
    "modifiersymbol": "Sk",
    "othersymbol": "So",
    "separator": "Z",
    "spaceseparator": "Zs",
    "lineseparator": "Zl",
    "paragraphseparator": "Zp",
    "other": "C",
    "control": "Cc",
    "cntrl": "Cc",
    "format": "Cf",
    "surrogate": "Cs",
    "privateuse": "Co",
    "unassigned": "Cn",
}
_SET_NAMES = {"alpha": "alphabetic", "lower": "lowercase", "upper": "uppercase"}


@functools.cache
def category(prefix: str) -> CharSet:
    """The characters of a general category (``"Lu"``), a group of them (``"L"``), or ``"LC"``."""
    if prefix == "LC":
        return charsets.union(category("Lu"), category("Ll"), category("Lt"))
    firsts, values = unicode.category_runs()
    wanted = np.array([name.startswith(prefix) for name in unicode.CATEGORIES])
    inside = wanted[values & ~np.uint8(unicode.WHITE_SPACE)]
    changes: CharSet = firsts[np.diff(inside, prepend=False)]
    return changes


@functools.cache
def white_space() -> CharSet:
    r"""The characters of ``\s``."""
    firsts, values = unicode.category_runs()
    return firsts[np.diff(values >= unicode.WHITE_SPACE, prepend=False)]


def property_set(name: str, dialect: Dialect) -> CharSet | None:
    r"""The characters of ``\p{name}``; None for a name that is not known."""
    plain = name.lower().replace(" ", "").replace("_", "").replace("-", "")
    if dialect == "rust":
        for prefix in ("gc=", "generalcategory=", "sc=", "script="):
            plain = plain.removeprefix(prefix)
    if plain == "any":
        return charsets.EVERYTHING
    if plain == "ascii":
        return _ASCII
    if plain == "assigned":
        return charsets.complement(category("Cn"))
    if plain in ("whitespace", "space"):
        return white_space()
    if plain == "punct":
        return unicode.named_sets()["punct oniguruma"] if dialect == "oniguruma" else category("P")
    prefix = _CATEGORY_NAMES.get(plain, plain.capitalize() if plain != "lc" else "LC")
    if prefix == "LC" or any(known.startswith(prefix) for known in unicode.CATEGORIES):
        return category(prefix)
    return unicode.named_sets().get(_SET_NAMES.get(plain, plain)) if plain.isascii() and plain.isalpha() else None


def word_characters(dialect: Dialect, in_class: bool = False) -> CharSet:
    r"""The characters of ``\w``, which Oniguruma takes for others in a bracketed class."""
    name = "word" if dialect == "rust" else "word in class oniguruma" if in_class else "word oniguruma"
    return unicode.named_sets()[name]


def posix_class(name: str, dialect: Dialect) -> CharSet | None:
    """The characters of ``[[:name:]]``, ASCII alone in Rust; None for a name that is not known."""
    if name == "xdigit":
        return HEX
    if name == "ascii":
        return _ASCII
    if dialect == "rust":
        ranges = {
            "alpha": [(65, 90), (97, 122)],
            "digit": [(48, 57)],
            "alnum": [(48, 57), (65, 90), (97, 122)],
            "upper": [(65, 90)],
            "lower": [(97, 122)],
            "space": [(9, 13), (32, 32)],
            "blank": [(9, 9), (32, 32)],
            "cntrl": [(0, 31), (127, 127)],
            "graph": [(33, 126)],
            "print": [(32, 126)],
            "punct": [(33, 47), (58, 64), (91, 96), (123, 126)],
            "word": [(48, 57), (65, 90), (95, 95), (97, 122)],
        }.get(name)
        return None if ranges is None else charsets.from_ranges(ranges)
    if name == "alpha":
        return unicode.named_sets()["alphabetic"]
    if name in ("upper", "lower"):
        return unicode.named_sets()[name + "case"]
    if name == "punct":
        return unicode.named_sets()["punct oniguruma"]
    if name == "word":
        return word_characters(dialect, in_class=True)
    if name == "blank":
        return charsets.union(_BLANK, category("Zs"))
    return {"digit": category("Nd"), "space": white_space(), "cntrl": category("Cc")}.get(name)


def fold_case(chars: CharSet) -> CharSet:
    """The set and all characters that differ from one of it in case alone."""
    variants = unicode.case_variants()
    points = _cased()
    found = points[charsets.contains(chars, points)].tolist()
    extra = {other for point in found for other in variants[point]}
    return charsets.union(chars, charsets.from_ranges((point, point) for point in extra)) if extra else chars


@functools.cache
def _cased() -> CharSet:
    return np.array(list(unicode.case_variants()), np.int64)


@functools.cache
def long_folds() -> tuple[frozenset[int], frozenset[str]]:
    """(characters that fold to several, the first two characters of what each folds to)."""
    longer = [chr(point) for point in range(0x80, 0x1FFFF) if len(chr(point).casefold()) > 1]
    return frozenset(map(ord, longer)), frozenset(char.casefold()[:2] for char in longer)
