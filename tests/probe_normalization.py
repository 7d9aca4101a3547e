"""Ask the reference tokenizers how each code point is normalized, and write the package's frozen tables.

    python tests/probe_normalization.py            # compare the tables with the installed tokenizers
    python tests/probe_normalization.py --write    # make them anew; wants unicodedata2, of the newest Unicode

The tables are what ``numbatok.normalizers`` reads. Only two things in them are not asked of the reference: the numbers
of the canonical combining classes, of which it shows the order, and which characters are ``NEWER``: those that the
reference leaves alone and that ``unicodedata2`` does not, or for which it has no category yet. Any Python up to that
Unicode normalizes the others as the reference does, since Unicode never changes the normalization of a character.
"""

import argparse
import sys
import unicodedata
from types import ModuleType

import numpy as np
from tokenizers import normalizers

from numbatok.normalizers import frozen

SURROGATES = range(0xD800, 0xE000)
CHARACTERS = [chr(code) for code in range(frozen.CODE_POINTS) if code not in SURROGATES]
FORMS = {name: getattr(normalizers, name)().normalize_str for name in ("NFC", "NFD", "NFKC", "NFKD")}
OVERLAY, IOTA_BELOW = "\u0334", "\u0345"  # of the combining classes 1 and 240, the first and the last


def moving_characters() -> set[str]:
    """Characters that the reference moves before or after others, or what they decompose to.

    Their combining class is not 0, but for U+0F73, U+0F75 and U+0F81: only what those become has another class.
    """
    nfd = FORMS["NFD"]
    return {
        character
        for character in CHARACTERS
        if nfd(IOTA_BELOW + character)[-1] == IOTA_BELOW != character
        or nfd(character + OVERLAY)[0] == OVERLAY != character
    } | {OVERLAY, IOTA_BELOW}


def probe_characters(newest: ModuleType) -> np.ndarray:
    """What :func:`frozen.characters` is to return; classes and unassigned characters are those of ``newest``."""
    table = np.zeros(frozen.CODE_POINTS, np.int32)
    moving = moving_characters()
    strip_accents = normalizers.StripAccents().normalize_str
    composed_last = {FORMS["NFD"](c)[-1] for c in CHARACTERS if FORMS["NFD"](c) != c == FORMS["NFC"](c)}
    for character in CHARACTERS:
        flags = 0
        if not strip_accents(character):
            flags |= frozen.MARK
        for name, normalize in FORMS.items():
            changed = normalize(character)
            if changed != character or (name in ("NFC", "NFKC") and character in composed_last):
                flags |= frozen.MAY_CHANGE[name]
            if name in ("NFD", "NFKD") and changed[0] in moving and newest.combining(character) == 0:
                flags |= frozen.MARKS_ALONE[name]
        if character in moving:
            flags |= newest.combining(character) << frozen.CLASS_SHIFT
        table[ord(character)] = flags
    for character in active_in(newest) | {c for c in CHARACTERS if newest.category(c) == "Cn"}:
        if table[ord(character)] & ~frozen.MARK == 0:
            table[ord(character)] |= frozen.NEWER
    return table


def active_in(unicode_data: ModuleType) -> set[str]:
    """Characters that some normalization form of a Unicode database changes, moves or joins to others."""
    active = {c for c in CHARACTERS if unicode_data.combining(c) or unicode_data.normalize("NFKD", c) != c}
    composed = {c for c in active if unicode_data.normalize("NFD", c) != c == unicode_data.normalize("NFC", c)}
    return active | {unicode_data.normalize("NFD", c)[-1] for c in composed}


def probe_lower() -> np.ndarray:
    """What :func:`frozen.to_lower` is to return."""
    lowercase = normalizers.Lowercase().normalize_str
    table = np.zeros(frozen.CODE_POINTS, np.int32)
    for character in CHARACTERS:
        lower = lowercase(character)
        if len(lower) == 1:
            table[ord(character)] = ord(lower) - ord(character)
        elif (character, lower) != ("\u0130", "i\u0307"):
            raise ValueError(f"U+{ord(character):04X} has a lower case of {len(lower)} characters")
    return table


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="write the tables into the package")
    if parser.parse_args().write:
        import unicodedata2

        print("combining classes and newer characters of Unicode", unicodedata2.unidata_version)
        packed = frozen.pack([probe_characters(unicodedata2), probe_lower()])
        frozen.TABLE.write_bytes(packed)
        print(f"{frozen.TABLE}: {len(packed)} bytes")
    # A Unicode older than the one the table was written with has other newer characters, but never less inert ones.
    kept = ~frozen.NEWER
    same = np.array_equal(frozen.characters() & kept, probe_characters(unicodedata) & kept)
    same &= np.array_equal(frozen.to_lower(), probe_lower())
    newer = {chr(code) for code in np.flatnonzero(frozen.characters() & frozen.NEWER)}
    known = {chr(code) for code in np.flatnonzero(frozen.characters() & kept)}
    same &= active_in(unicodedata) <= newer | known
    print("the package's tables", "equal" if same else "DIFFER FROM", "the reference's")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
