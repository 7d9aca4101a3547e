"""tiktoken 0.14's interface: ``import numbatok.compat.tiktoken as tiktoken`` in a program written for it.

>>> encoding = tiktoken.get_encoding("o200k_base")  # from inside the package, without the network
>>> encoding.encode("hello world")
[24912, 2375]

tiktoken itself is not imported, and need not be installed. Results, and types of exceptions, are its own, but:

* Of special tokens that begin at one place in a text, the longest counts. tiktoken takes the one that comes first in a
  hash table, where the tokens' names, and sometimes their order, put it.
* Where tiktoken panics, hangs or gives up, there is a result if the text has one: for long runs of one character under
  patterns that backtrack, and for patterns that match the empty string. Ranks that lack one of the 256 bytes, or have
  one rank twice, and an empty special token are a ValueError when the encoding is made.
* ``encode_to_numpy`` gives an array that can be written to.
"""

from numbatok.compat.tiktoken import core, load, model, registry
from numbatok.compat.tiktoken.core import Encoding
from numbatok.compat.tiktoken.model import encoding_for_model, encoding_name_for_model
from numbatok.compat.tiktoken.registry import get_encoding, list_encoding_names

#: The version of tiktoken whose interface this is.
__version__ = "0.14.0"

__all__ = [
    "Encoding",
    "__version__",
    "core",
    "encoding_for_model",
    "encoding_name_for_model",
    "get_encoding",
    "list_encoding_names",
    "load",
    "model",
    "registry",
]
