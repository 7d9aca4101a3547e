"""What a call's two arguments about special tokens mean, and special tokens found as tiktoken finds them."""

import functools
import re
from collections.abc import Collection, Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import Literal, NoReturn

Allowed = Literal["all"] | AbstractSet[str]
Disallowed = Literal["all"] | Collection[str]
Policy = tuple[frozenset[str], frozenset[str]]  # special tokens that are allowed, and that are refused

NOTHING: frozenset[str] = frozenset()
MOST_POLICIES = 64  # kept, for programs that pass the same arguments with each call


class SpecialTokens:
    """The special tokens of an encoding.

    Attributes
    ----------
    names : all of them
    found : those that the kernel looks for
    """

    def __init__(self, ids: Mapping[str, int], found: Collection[str]) -> None:
        self._ids = ids
        self.names = frozenset(ids)
        self.found = frozenset(found)
        self.finds_all = self.found == self.names
        self._policies: dict[tuple[object, object], Policy | None] = {}

    @functools.cached_property
    def _apart(self) -> bool:
        """Whether none is inside another, or begins where another has not ended."""
        beginnings = {token[:end] for token in self.names for end in range(1, len(token))}
        firsts = {token[0] for token in self.names}
        for token in self.names:
            for begin in range(len(token)):
                if token[begin] not in firsts:
                    continue
                rest = token[begin:]
                if begin and (rest in beginnings or rest in self.names):
                    return False
                if any(rest[:end] in self.names for end in range(1, len(rest))):
                    return False
        return True

    def strings(self, allowed: Allowed, disallowed: Disallowed) -> tuple[AbstractSet[str], frozenset[str]]:
        """(allowed, refused) strings of a call, special tokens or not, as tiktoken takes its arguments."""
        if allowed == "all":
            allowed = self.names
        if disallowed == "all":
            disallowed = self.names - allowed
        return allowed, frozenset(disallowed) if disallowed else NOTHING

    def for_kernel(self, allowed: Allowed, disallowed: Disallowed) -> Policy | None:
        """The policy of a call where the kernel, which takes the longest token only, finds what tiktoken does.

        It does where all are treated alike, or none can hide another. Otherwise, and for wrong arguments, None.
        """
        if type(allowed) is set:
            allowed = frozenset(allowed)
        if type(disallowed) is set or type(disallowed) is list:
            disallowed = frozenset(disallowed)
        arguments = allowed, disallowed
        try:
            return self._policies[arguments]
        except KeyError:
            policy = self._policy(*arguments)
        except TypeError:  # there is something in them that can't be hashed, which no str is
            return None
        if len(self._policies) >= MOST_POLICIES:
            self._policies.clear()
        self._policies[arguments] = policy
        return policy

    def _policy(self, allowed: Allowed, disallowed: Disallowed) -> Policy | None:
        """See :meth:`for_kernel`."""
        if not isinstance(disallowed, str | tuple | frozenset):  # an iterator gives its items once
            return None
        allowed, refused = self.strings(allowed, disallowed)
        if not isinstance(allowed, set | frozenset) or not all(isinstance(token, str) for token in allowed):
            return None
        permitted = self.names & allowed
        if not permitted <= self.found or not refused <= self.found:
            return None
        alike = permitted in (NOTHING, self.found) and refused in (NOTHING, self.found)
        return (permitted, refused) if alike or self._apart else None

    def permitted(self, allowed: AbstractSet[str]) -> frozenset[str]:
        """The special tokens among the allowed strings; TypeError for what tiktoken does not take."""
        if not isinstance(allowed, set | frozenset):
            raise TypeError(f'allowed_special must be "all" or a set of special tokens, not {type(allowed).__name__}')
        for token in allowed:
            if not isinstance(token, str):
                raise TypeError(f"allowed_special must hold special tokens, which are str, not {token!r}")
        return self.names & allowed

    def segments(self, text: str, permitted: frozenset[str]) -> Iterator[tuple[str, int | None]]:
        """(ordinary text, id of the permitted special token after it), and at last the rest and None.

        Where a special token that is not permitted begins, the search goes on at the next character.
        """
        done = begin = 0
        while permitted and (match := _special_token_regex(self.names).search(text, begin)):
            begin = match.start() + 1
            if match.group() in permitted:
                yield text[done : match.start()], self._ids[match.group()]
                done = begin = match.end()
        yield text[done:], None


@functools.lru_cache(maxsize=128)
def _special_token_regex(tokens: frozenset[str]) -> re.Pattern[str]:
    """What finds the first of the strings in a text, and of those that begin there the longest."""
    return re.compile("|".join(map(re.escape, sorted(tokens, key=len, reverse=True))))


def refuse(text: str, refused: frozenset[str]) -> None:
    """Raise ValueError where one of the strings is in a text."""
    if refused and (match := _special_token_regex(refused).search(text)):
        raise_disallowed_special_token(match.group())


def raise_disallowed_special_token(token: str) -> NoReturn:
    """Raise the ValueError for a disallowed special token in a text."""
    raise ValueError(
        f"Encountered text corresponding to disallowed special token {token!r}.\n"
        f"To encode it as a special token, pass it in `allowed_special`: `allowed_special={{{token!r}}}`.\n"
        "To encode it as ordinary text, leave it out of `disallowed_special`: "
        f"`disallowed_special=(enc.special_tokens_set - {{{token!r}}})`, or `disallowed_special=()` to refuse none."
    )
