"""The byte alphabet of GPT-2's files: each byte as one printable character, so that tokens can stand in JSON."""

import functools

from numbatok.errors import VocabularyError


@functools.cache
def byte_of_character() -> dict[str, int]:
    """The 256 characters of the alphabet, each with its byte.

    Printable bytes of Latin-1 stand for themselves, the other 68 for the characters from U+0100 on, in order (OpenAI's
    ``bytes_to_unicode`` in the GPT-2 release, 2019).
    """
    itself = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in set(itself)]
    return {chr(byte): byte for byte in itself} | {chr(0x100 + n): byte for n, byte in enumerate(others)}


@functools.cache
def _spelling() -> dict[int, str]:
    """For ``str.translate``: each Latin-1 character to the alphabet character of its byte."""
    return {byte: character for character, byte in byte_of_character().items()}


def to_bytes(token: str) -> bytes:
    """The bytes of a token written in the alphabet; one with any other character is taken as its UTF-8.

    >>> to_bytes("Ġhello"), to_bytes("▁x")
    (b' hello', b'\\xe2\\x96\\x81x')
    """
    alphabet = byte_of_character()
    try:
        return bytes([alphabet[character] for character in token])
    except KeyError:
        pass
    try:
        return token.encode()
    except UnicodeEncodeError as error:
        raise VocabularyError(f"token {token!r} has a lone surrogate: {error.reason}") from None


def spell(token: bytes) -> str:
    """Bytes written in the alphabet.

    >>> spell(b" hello")
    'Ġhello'
    """
    return token.decode("latin-1").translate(_spelling())
