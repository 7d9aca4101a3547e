"""``tokenizers.AddedToken``, and what callers give as one."""

from typing import Any

from numbatok.added_tokens import AddedToken as CoreAddedToken
from numbatok.compat.huggingface.settings import checked_flag, checked_text


class AddedToken:
    """A token to be found in texts as it is; ``normalized`` is by default what ``special`` is not."""

    def __init__(
        self,
        content: str | None = None,
        *,
        single_word: bool = False,
        lstrip: bool = False,
        rstrip: bool = False,
        normalized: bool | None = None,
        special: bool = False,
    ) -> None:
        self.content = "" if content is None else checked_text("content", content)
        self.single_word, self.lstrip = checked_flag("single_word", single_word), checked_flag("lstrip", lstrip)
        self.rstrip, self.special = checked_flag("rstrip", rstrip), checked_flag("special", special)
        self._normalized = None if normalized is None else checked_flag("normalized", normalized)

    @property
    def normalized(self) -> bool:
        """Whether it is looked for in the normalized text."""
        return not self.special if self._normalized is None else self._normalized

    def __str__(self) -> str:
        return self.content

    def __eq__(self, other: object) -> bool:
        return repr(self) == repr(other) if isinstance(other, AddedToken) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.content)

    def __repr__(self) -> str:
        flags = ", ".join(
            f"{name}={getattr(self, name)}" for name in ("rstrip", "lstrip", "single_word", "normalized", "special")
        )
        return f'AddedToken("{self.content}", {flags})'


def as_added(token: Any, special: bool) -> CoreAddedToken:
    """A token to be added, without an id; AddedTokens of ``tokenizers`` do as well."""
    if isinstance(token, str):
        return CoreAddedToken(token, 0, special, normalized=not special)
    try:
        flags = {name: bool(getattr(token, name)) for name in ("lstrip", "rstrip", "single_word", "normalized")}
        if special and isinstance(token, AddedToken) and token._normalized is None:
            flags["normalized"] = False
        return CoreAddedToken(token.content, 0, special or bool(token.special), **flags)
    except AttributeError:
        raise TypeError(f"a token must be a str or an AddedToken, not {type(token).__name__}") from None
