"""Which encoding OpenAI's models use, as tiktoken 0.14 has it."""

from numbatok.loading.embedded import get_encoding
from numbatok.tokenizer import Tokenizer

#: The models of each encoding by their whole names.
_NAMES = {
    "o200k_base": "o1 o3 o4-mini gpt-5 gpt-4.1 gpt-4o",
    "cl100k_base": (
        "gpt-4 gpt-3.5-turbo gpt-3.5 gpt-35-turbo davinci-002 babbage-002 text-embedding-ada-002 "
        "text-embedding-3-small text-embedding-3-large"
    ),
    "p50k_base": (
        "text-davinci-003 text-davinci-002 code-davinci-002 code-davinci-001 code-cushman-002 code-cushman-001 "
        "davinci-codex cushman-codex"
    ),
    "p50k_edit": "text-davinci-edit-001 code-davinci-edit-001",
    "r50k_base": (
        "text-davinci-001 text-curie-001 text-babbage-001 text-ada-001 davinci curie babbage ada "
        "text-similarity-davinci-001 text-similarity-curie-001 text-similarity-babbage-001 text-similarity-ada-001 "
        "text-search-davinci-doc-001 text-search-curie-doc-001 text-search-babbage-doc-001 text-search-ada-doc-001 "
        "code-search-babbage-code-001 code-search-ada-code-001"
    ),
    "gpt2": "gpt2 gpt-2",
}
#: What the names of other models begin with; the first that fits counts.
PREFIXES = (
    ("o200k_base", ("o1-", "o3-", "o4-mini-", "gpt-5", "gpt-4.5-", "gpt-4.1-", "chatgpt-4o-", "gpt-4o-")),
    ("cl100k_base", ("gpt-4-", "gpt-3.5-turbo-", "gpt-35-turbo-")),
    ("o200k_harmony", ("gpt-oss-",)),
    ("o200k_base", ("ft:gpt-4o",)),
    ("cl100k_base", ("ft:gpt-4", "ft:gpt-3.5-turbo", "ft:davinci-002", "ft:babbage-002")),
)

#: The encoding of each model by its whole name.
ENCODING_OF = {model: encoding for encoding, models in _NAMES.items() for model in models.split()}


def encoding_name_for_model(model: str) -> str:
    """The name of the encoding that a model of OpenAI's uses; KeyError for a name that nothing is known of.

    >>> numbatok.encoding_name_for_model("gpt-4o-2024-05-13")
    'o200k_base'
    """
    if not isinstance(model, str):
        raise TypeError(f"a model's name must be str, not {type(model).__name__}")
    known = ENCODING_OF.get(model)
    if known is not None:
        return known
    for encoding, prefixes in PREFIXES:
        if model.startswith(prefixes):
            return encoding
    raise KeyError(f"no encoding is known for the model {model!r}; numbatok.get_encoding takes an encoding's name")


def encoding_for_model(model: str) -> Tokenizer:
    """The tokenizer of the encoding that a model of OpenAI's uses; KeyError as :func:`encoding_name_for_model`.

    >>> numbatok.encoding_for_model("gpt-4o").name
    'o200k_base'
    """
    return get_encoding(encoding_name_for_model(model))
