"""Normalizers: what is done to a text, between its raw added tokens, before it is split.

Each gives what the normalizer of that name gives in ``tokenizers``, on every text, whatever Unicode the running Python
has. Most text is normal already, which three questions find out, the cheapest first:

1. :func:`restless` is a table over code points for :func:`numbatok.kernels.normal.first_restless`, which reads the
   UTF-8 in place, at gigabytes a second: where it finds nothing, the text is normal;
2. else :meth:`Normalizer.leaves` may know that the text is normal all the same;
3. else :meth:`Normalizer.normalize` makes the normal text.
"""

from numbatok.normalizers.edits import Lowercase, Prepend, Replace, Sequence, Strip, StripAccents
from numbatok.normalizers.forms import NFC, NFD, NFKC, NFKD
from numbatok.normalizers.normalizer import Normalizer, restless
from numbatok.normalizers.reading import from_json

__all__ = [
    "NFC",
    "NFD",
    "NFKC",
    "NFKD",
    "Lowercase",
    "Normalizer",
    "Prepend",
    "Replace",
    "Sequence",
    "Strip",
    "StripAccents",
    "from_json",
    "restless",
]
