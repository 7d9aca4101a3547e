"""The interface of Hugging Face's ``tokenizers`` 0.23, and tokenizers for ``transformers``.

>>> from numbatok.compat.huggingface import Tokenizer  # instead of: from tokenizers import Tokenizer
>>> tokenizer = Tokenizer.from_file("tokenizer.json")
>>> tokenizer.encode("Hello world").ids
[15496, 995]

``tokenizers`` itself is not imported, and need not be installed.
"""

from typing import NoReturn

from numbatok.compat.huggingface import decoders
from numbatok.compat.huggingface.absent import refuse
from numbatok.compat.huggingface.added_token import AddedToken
from numbatok.compat.huggingface.encoding import Encoding
from numbatok.compat.huggingface.inputs import (
    EncodeInput,
    InputSequence,
    Offsets,
    PreTokenizedEncodeInput,
    PreTokenizedInputSequence,
    TextEncodeInput,
    TextInputSequence,
)
from numbatok.compat.huggingface.tokenizer import Tokenizer
from numbatok.compat.huggingface.transformers import (
    NumbatokTokenizer,
    from_transformers,
    patch_transformers,
    unpatch_transformers,
)

__all__ = [
    "AddedToken",
    "EncodeInput",
    "Encoding",
    "InputSequence",
    "NumbatokTokenizer",
    "Offsets",
    "PreTokenizedEncodeInput",
    "PreTokenizedInputSequence",
    "TextEncodeInput",
    "TextInputSequence",
    "Tokenizer",
    "decoders",
    "from_transformers",
    "patch_transformers",
    "unpatch_transformers",
]


def __getattr__(name: str) -> NoReturn:
    refuse("tokenizers", name)
