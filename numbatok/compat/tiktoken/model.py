"""Which encoding a model uses. Entries that a program adds to the two mappings count."""

from numbatok.compat.tiktoken.core import Encoding
from numbatok.compat.tiktoken.registry import get_encoding
from numbatok.loading.models import ENCODING_OF, PREFIXES

#: The encoding of the models whose names begin so; the first that fits counts.
MODEL_PREFIX_TO_ENCODING = {prefix: encoding for encoding, prefixes in PREFIXES for prefix in prefixes}
#: The encoding of each model by its whole name.
MODEL_TO_ENCODING = dict(ENCODING_OF)


def encoding_name_for_model(model_name: str) -> str:
    """The name of the encoding that a model uses; KeyError for a model that nothing is known of."""
    if model_name in MODEL_TO_ENCODING:
        return MODEL_TO_ENCODING[model_name]
    for prefix, encoding_name in MODEL_PREFIX_TO_ENCODING.items():
        if model_name.startswith(prefix):
            return encoding_name
    raise KeyError(f"no encoding is known for the model {model_name!r}; tiktoken.get_encoding takes an encoding's name")


def encoding_for_model(model_name: str) -> Encoding:
    """The encoding that a model uses; KeyError for a model that nothing is known of."""
    return get_encoding(encoding_name_for_model(model_name))
