"""Ask the reference tokenizers which classes each code point is in, and write the package's frozen tables.

    python tests/probe_unicode.py            # compare the tables with the installed references
    python tests/probe_unicode.py --write    # make them anew

The tables are what ``numbatok.patterns.unicode`` reads: neither ``unicodedata`` nor ``regex`` agrees with the references
(their Unicode is newer), so splitting by either would give other ids.
"""

import argparse
import json
import sys
import zlib

import numpy as np
import tiktoken
import tokenizers
from tokenizers import pre_tokenizers

from numbatok.patterns import unicode

SURROGATES = range(0xD800, 0xE000)
EVERY_CHARACTER = "".join(chr(c) for c in range(unicode.CODE_POINTS) if c not in SURROGATES)


def matched_by_tiktoken(pattern: str) -> np.ndarray:
    """The code points that the one-character ``pattern`` matches in tiktoken, which drops what does not match."""
    encoding = tiktoken.Encoding(
        "probe", pat_str=pattern, mergeable_ranks={bytes([i]): i for i in range(256)}, special_tokens={}
    )
    kept = encoding.decode(encoding.encode_ordinary(EVERY_CHARACTER))
    return np.frombuffer(kept.encode("utf-32-le"), np.uint32)


def matched_by_tokenizers(pattern: str, characters: str = EVERY_CHARACTER) -> np.ndarray:
    """The same in Hugging Face tokenizers, of all characters or some."""
    split = pre_tokenizers.Split(tokenizers.Regex(pattern), "removed", invert=True)
    kept = "".join(piece for piece, _ in split.pre_tokenize_str(characters))
    return np.frombuffer(kept.encode("utf-32-le"), np.uint32)


def probe(matched) -> np.ndarray:
    """Category number and white-space flag of every code point, according to one reference."""
    table = np.full(unicode.CODE_POINTS, unicode.CATEGORIES.index("Cn"), np.uint8)
    table[SURROGATES.start : SURROGATES.stop] = unicode.CATEGORIES.index("Cs")
    for number, category in enumerate(unicode.CATEGORIES):
        if category not in ("Cn", "Cs"):
            table[matched(rf"\p{{{category}}}")] = number
    table[matched(r"\s")] |= unicode.WHITE_SPACE
    return table


#: Every script of Unicode 16 that is not Common, Inherited or Unknown.
SCRIPTS = """
Adlam Ahom Anatolian_Hieroglyphs Arabic Armenian Avestan Balinese Bamum Bassa_Vah Batak Bengali Bhaiksuki Bopomofo
Brahmi Braille Buginese Buhid Canadian_Aboriginal Carian Caucasian_Albanian Chakma Cham Cherokee Chorasmian Coptic
Cuneiform Cypriot Cypro_Minoan Cyrillic Deseret Devanagari Dives_Akuru Dogra Duployan Egyptian_Hieroglyphs Elbasan
Elymaic Ethiopic Garay Georgian Glagolitic Gothic Grantha Greek Gujarati Gunjala_Gondi Gurmukhi Gurung_Khema Han Hangul
Hanifi_Rohingya Hanunoo Hatran Hebrew Hiragana Imperial_Aramaic Inscriptional_Pahlavi Inscriptional_Parthian Javanese
Kaithi Kannada Katakana Kawi Kayah_Li Kharoshthi Khitan_Small_Script Khmer Khojki Khudawadi Kirat_Rai Lao Latin Lepcha
Limbu Linear_A Linear_B Lisu Lycian Lydian Mahajani Makasar Malayalam Mandaic Manichaean Marchen Masaram_Gondi
Medefaidrin Meetei_Mayek Mende_Kikakui Meroitic_Cursive Meroitic_Hieroglyphs Miao Modi Mongolian Mro Multani Myanmar
Nabataean Nag_Mundari Nandinagari New_Tai_Lue Newa Nko Nushu Nyiakeng_Puachue_Hmong Ogham Ol_Chiki Ol_Onal
Old_Hungarian Old_Italic Old_North_Arabian Old_Permic Old_Persian Old_Sogdian Old_South_Arabian Old_Turkic Old_Uyghur
Oriya Osage Osmanya Pahawh_Hmong Palmyrene Pau_Cin_Hau Phags_Pa Phoenician Psalter_Pahlavi Rejang Runic Samaritan
Saurashtra Sharada Shavian Siddham SignWriting Sinhala Sogdian Sora_Sompeng Soyombo Sundanese Sunuwar Syloti_Nagri
Syriac Tagalog Tagbanwa Tai_Le Tai_Tham Tai_Viet Takri Tamil Tangsa Tangut Telugu Thaana Thai Tibetan Tifinagh Tirhuta
Todhri Toto Tulu_Tigalari Ugaritic Vai Vithkuqi Wancho Warang_Citi Yezidi Yi Zanabazar_Square Common Inherited
""".split()


def matched_by_pre_tokenizer(pre_tokenizer) -> np.ndarray:
    """The code points that a pre-tokenizer isolates which has its own idea of them."""
    pieces = pre_tokenizer.pre_tokenize_str("a".join(EVERY_CHARACTER) + "a")
    return np.array([ord(piece) for piece, _ in pieces if len(piece) == 1 and piece != "a"], np.uint32)


def probe_sets() -> dict[str, np.ndarray]:
    """The code points of each named set; of the scripts, those that ``tokenizers`` knows."""
    sets = {}
    assigned = "".join(c for c in EVERY_CHARACTER if not _in_category(c, "Cn", "Co"))
    for script in SCRIPTS:
        name = script.lower().replace("_", "")
        try:
            sets[name] = matched_by_tokenizers(rf"\p{{{script}}}", assigned)
        except Exception as error:  # its class is no other
            print(f"{script} is left out: {error}")
    for name in ("Alphabetic", "Lowercase", "Uppercase"):
        sets[name.lower()] = matched_by_tiktoken(rf"\p{{{name}}}")
    sets["word"] = matched_by_tiktoken(r"\w")
    sets["word oniguruma"] = matched_by_tokenizers(r"\w")
    sets["punct oniguruma"] = matched_by_tokenizers(r"[[:punct:]]")
    sets["isnumeric"] = matched_by_pre_tokenizer(pre_tokenizers.Digits(individual_digits=True))
    sets["ispunctuation"] = matched_by_pre_tokenizer(pre_tokenizers.Punctuation())
    return {name: np.sort(points) for name, points in sets.items()}


def probe_case() -> list[tuple[int, int]]:
    """Pairs of different code points that tiktoken takes for the same in ``(?i:…)``."""
    cased = unicode.in_categories("L") | unicode.in_categories("N") | unicode.in_categories("So")
    cased |= unicode.in_categories("Mn")
    candidates = [c for c in np.flatnonzero(cased).tolist() if _has_case(chr(c))]
    text = "\n".join(map(chr, candidates))
    pairs = []
    for point in candidates:
        encoding = tiktoken.Encoding(
            "probe",
            pat_str=rf"(?i:\x{{{point:x}}})",
            mergeable_ranks={bytes([i]): i for i in range(256)},
            special_tokens={},
        )
        found = encoding.decode(encoding.encode_ordinary(text))
        pairs += [(point, ord(other)) for other in found if ord(other) != point]
    return sorted(pairs)


def _in_category(character: str, *names: str) -> bool:
    number = unicode.categories()[ord(character)] & ~np.uint8(unicode.WHITE_SPACE)
    return unicode.CATEGORIES[number] in names


def _has_case(character: str) -> bool:
    changed = {character.upper(), character.lower(), character.casefold(), character.title()} != {character}
    return changed or _in_category(character, "Lu", "Ll", "Lt")


def packed_sets(sets: dict[str, np.ndarray], pairs: list[tuple[int, int]]) -> bytes:
    """The content of the file of sets: a line of JSON with the counts, then differences of code points."""
    changes = {}
    for name, points in sets.items():
        inside = np.zeros(unicode.CODE_POINTS + 2, np.int8)
        inside[points.astype(np.int64) + 1] = 1
        changes[name] = np.diff(np.flatnonzero(np.diff(inside)), prepend=0)
    header = {"sets": {name: len(values) for name, values in changes.items()}, "pairs": len(pairs)}
    firsts, seconds = np.array(pairs).T
    body = np.concatenate([*changes.values(), np.diff(firsts, prepend=0), seconds]).astype("<u4")
    return zlib.compress(json.dumps(header).encode() + b"\n" + body.tobytes(), 9)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="write the tables into the package")
    write = parser.parse_args().write
    by_tiktoken, by_tokenizers = probe(matched_by_tiktoken), probe(matched_by_tokenizers)
    differing = np.flatnonzero(by_tiktoken != by_tokenizers)
    if differing.size:
        print(f"the references differ on {differing.size} code points, first U+{differing[0]:04X}")
        return 1
    if write:
        firsts = np.flatnonzero(np.diff(by_tiktoken, prepend=255)).astype("<u4")
        packed = zlib.compress(firsts.tobytes() + by_tiktoken[firsts].tobytes(), 9)
        unicode.TABLE.write_bytes(packed)
        print(f"{unicode.TABLE}: {len(firsts)} ranges, {len(packed)} bytes")
    sets = packed_sets(probe_sets(), probe_case())
    if write:
        unicode.SETS.write_bytes(sets)
        print(f"{unicode.SETS}: {len(sets)} bytes")
    same = np.array_equal(unicode.categories(), by_tiktoken) and unicode.SETS.read_bytes() == sets
    print("the package's tables", "equal" if same else "DIFFER FROM", "the references'")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
