"""Ask the reference tokenizers which general category each code point has, and write the package's frozen table.

    python tests/probe_unicode.py            # compare the table with the installed references
    python tests/probe_unicode.py --write    # make it anew

The table is what ``numbatok.patterns.unicode`` reads: neither ``unicodedata`` nor ``regex`` agrees with the references
(their Unicode is newer), so splitting by either would give other ids.
"""

import argparse
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


def matched_by_tokenizers(pattern: str) -> np.ndarray:
    """The same in Hugging Face tokenizers."""
    split = pre_tokenizers.Split(tokenizers.Regex(pattern), "removed", invert=True)
    kept = "".join(piece for piece, _ in split.pre_tokenize_str(EVERY_CHARACTER))
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


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="write the table into the package")
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
    same = np.array_equal(unicode.categories(), by_tiktoken)
    print("the package's table", "equals" if same else "DIFFERS FROM", "the references'")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
