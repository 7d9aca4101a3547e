"""What ``tokenizers`` has and numbatok has not: each name raises NotImplementedError that says the way round."""

from typing import NoReturn

from numbatok.errors import VocabularyError

_COMPONENTS = (
    "numbatok compiles a tokenizer as a whole and has no such object; put it together with tokenizers, and pass it to "
    "Tokenizer.from_huggingface(tokenizer)"
)
_TRAINING = (
    "numbatok does not train; train with tokenizers, and pass the result to Tokenizer.from_huggingface(tokenizer)"
)
_DECODERS = "numbatok reads decoders from a tokenizer.json and has no such object; use Tokenizer.decode"

#: The names of ``tokenizers``, and of ``tokenizers.decoders``, by what is said of them.
_WAYS = {
    "tokenizers": {
        _COMPONENTS: (
            "NormalizedString OffsetReferential OffsetType PreTokenizedString Regex SplitDelimiterBehavior Token "
            "models normalizers pre_tokenizers processors"
        ),
        _TRAINING: (
            "BertWordPieceTokenizer ByteLevelBPETokenizer CharBPETokenizer SentencePieceBPETokenizer "
            "SentencePieceUnigramTokenizer implementations trainers"
        ),
    },
    "decoders": {
        _DECODERS: "BPEDecoder ByteFallback ByteLevel CTC Decoder Fuse Metaspace Replace Sequence Strip WordPiece"
    },
}


class NotSupportedError(VocabularyError, NotImplementedError):
    """A tokenizer that numbatok does not load: ``tokenizers`` may, or it is broken. The message says what is wrong."""

    @classmethod
    def of(cls, error: VocabularyError) -> "NotSupportedError":
        """What the core says, with the way round."""
        return cls(f"{error}; where tokenizers loads it, use tokenizers.Tokenizer")


def refuse(module: str, name: str) -> NoReturn:
    """NotImplementedError for a name of ``tokenizers``; AttributeError for another."""
    for way, names in _WAYS[module].items():
        if name in names.split():
            raise NotImplementedError(f"{module}.{name}: {way}")
    raise AttributeError(f"{module!r} of numbatok.compat.huggingface has no attribute {name!r}")
