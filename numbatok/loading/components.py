"""The sections of a ``tokenizer.json`` around its model: pre_tokenizer and post_processor, as parts of a tokenizer."""

import re
from dataclasses import dataclass, replace
from typing import Any, Literal

from numbatok.errors import VocabularyError
from numbatok.loading.checks import as_list, as_object, brief, not_supported, refuse_unknown, take
from numbatok.patterns.known import DIGITS, PUNCTUATION
from numbatok.patterns.rules import GPT2, Behavior, Split
from numbatok.templates import PLAIN, Piece, Special, Template, Text, Trim

#: What is done with matches, by the names in a file.
BEHAVIORS: dict[str, Behavior] = {
    "Isolated": "isolated",
    "Removed": "removed",
    "MergedWithPrevious": "merged_with_previous",
    "MergedWithNext": "merged_with_next",
    "Contiguous": "contiguous",
}
_SPECIAL_CHARACTERS = re.compile(r"[\\.+*?()|\[\]{}^$]")
#: Patterns that match the same in a text and in its bytes' spelling: ASCII letters, digits and classes of them.
_PLAIN_PATTERN = re.compile(r"(?:[0-9A-Za-z]|\[(?:[0-9A-Za-z](?:-[0-9A-Za-z])?)+\])+")

_WHITESPACE = r"\w+|[^\w\s]+"  # what the pre-tokenizer Whitespace keeps


@dataclass(frozen=True)
class PreTokenizer:
    """How text is cut: the steps, whether the model sees bytes, and whether a space is put before the text."""

    rule: tuple[Split, ...] = ()
    byte_level: bool = False
    prefix_space: bool = False


def literal(text: str) -> str:
    """The pattern that matches just this text."""
    return _SPECIAL_CHARACTERS.sub(r"\\\g<0>", text)


def pre_tokenizer(settings: object, byte_level: bool = False) -> PreTokenizer:
    """The pre-tokenizer of a file; ``byte_level`` where the normalizer has turned the text into the byte alphabet.

    Steps behind ``ByteLevel`` see the alphabet, so they are marked as ``spelled``.
    """
    found = PreTokenizer(byte_level=byte_level)
    for number, step in enumerate(flat(settings, "pre_tokenizer", "pretokenizers")):
        kind = step.get("type")
        if kind == "ByteLevel":
            prefix_space, use_regex = _byte_level(step)
            if found.byte_level:
                raise VocabularyError("pre_tokenizer ByteLevel is there twice, or after a ByteLevel normalizer")
            if prefix_space and number:
                raise VocabularyError(
                    "pre_tokenizer ByteLevel with add_prefix_space behind another step is not supported; it is as the "
                    "first step"
                )
            steps = found.rule + ((Split(GPT2),) if use_regex else ())
            found = PreTokenizer(steps, True, prefix_space)
        else:
            made = _split(kind, step)
            spelled = found.byte_level and not _PLAIN_PATTERN.fullmatch(made.pattern)
            found = replace(found, rule=(*found.rule, replace(made, spelled=spelled)))
    return found


def flat(settings: object, what: str, inner: str) -> list[dict[str, Any]]:
    """The components of a section in order, with Sequences replaced by what they hold."""
    if settings is None:
        return []
    left, found = [settings], []
    while left:
        component = as_object(left.pop(), what)
        if component.get("type") == "Sequence":
            refuse_unknown(component, f"type {inner}", f"{what} Sequence")
            left.extend(reversed(as_list(component.get(inner), f"{what} Sequence: {inner}")))
        else:
            found.append(component)
    return found


def _byte_level(step: dict[str, Any]) -> tuple[bool, bool]:
    where = "pre_tokenizer ByteLevel"
    refuse_unknown(step, "type add_prefix_space trim_offsets use_regex", where)
    take(step, "trim_offsets", bool, where, True)  # of offsets, not of ids
    return take(step, "add_prefix_space", bool, where), take(step, "use_regex", bool, where, True)


def _split(kind: object, step: dict[str, Any]) -> Split:
    where = f"pre_tokenizer {kind}"
    if kind == "Split":
        refuse_unknown(step, "type pattern behavior invert", where)
        invert = take(step, "invert", bool, where)
        pattern = _pattern(step.get("pattern"), where)
        return Split(pattern, _behavior(step.get("behavior"), where), invert, "oniguruma")
    if kind == "Digits":
        refuse_unknown(step, "type individual_digits", where)
        return Split(DIGITS, "isolated" if take(step, "individual_digits", bool, where) else "contiguous")
    if kind == "Punctuation":
        refuse_unknown(step, "type behavior", where)
        return Split(PUNCTUATION, _behavior(step.get("behavior", "Isolated"), where))
    if kind == "Whitespace":
        refuse_unknown(step, "type", where)
        return Split(_WHITESPACE, "removed", invert=True)
    if kind == "WhitespaceSplit":
        refuse_unknown(step, "type", where)
        return Split(r"\s", "removed")
    not_supported("pre_tokenizer", kind, "ByteLevel, Split, Digits, Punctuation, Whitespace, WhitespaceSplit, Sequence")


def _pattern(pattern: object, where: str) -> str:
    if isinstance(pattern, dict) and len(pattern) == 1:
        (kind, text), *_ = pattern.items()
        if isinstance(text, str) and kind in ("String", "Regex"):
            if re.search("[\ud800-\udfff]", text):
                raise VocabularyError(f"{where}: pattern {brief(pattern)} has a lone surrogate")
            return literal(text) if kind == "String" else text
    raise VocabularyError(f'{where}: pattern must be {{"String": …}} or {{"Regex": …}}, not {brief(pattern)}')


def _behavior(name: object, where: str) -> Behavior:
    if not isinstance(name, str) or name not in BEHAVIORS:
        raise VocabularyError(f"{where}: behavior must be one of {', '.join(BEHAVIORS)}, not {brief(name)}")
    return BEHAVIORS[name]


def template(settings: object) -> Template:
    """The template of a file's post_processor; ByteLevel there is about offsets alone, see :func:`trims`."""
    found = None
    for component in flat(settings, "post_processor", "processors"):
        kind = component.get("type")
        if kind == "ByteLevel":
            refuse_unknown(component, "type add_prefix_space trim_offsets use_regex", "post_processor ByteLevel")
            continue
        if found is not None:
            raise VocabularyError(
                f"post_processor Sequence has two that add tokens, the second {brief(kind)}; only one is supported"
            )
        if kind == "TemplateProcessing":
            found = _template_processing(component)
        elif kind in ("RobertaProcessing", "BertProcessing"):
            found = _sentence_pair(component, kind)
        else:
            not_supported(
                "post_processor", kind, "ByteLevel, TemplateProcessing, RobertaProcessing, BertProcessing, Sequence"
            )
    return found or PLAIN


def trims(settings: object) -> tuple[Trim, ...]:
    """What a post_processor, read by :func:`template` before, leaves out of tokens' offsets."""
    found = []
    behind: Literal["", "A", "AB"] = ""
    for component in flat(settings, "post_processor", "processors"):
        kind = component["type"]
        if kind in ("ByteLevel", "RobertaProcessing"):
            where = f"post_processor {kind}"
            keeps_first = take(component, "add_prefix_space", bool, where, True)
            if take(component, "trim_offsets", bool, where, True):
                found.append(Trim(keeps_first, behind))
        if kind in ("BertProcessing", "RobertaProcessing"):
            behind = "A" if kind == "BertProcessing" else "AB"
    return tuple(found)


def _sentence_pair(settings: dict[str, Any], kind: str) -> Template:
    """Roberta's: ``<s> A </s> </s> B </s>``, all of type 0; Bert's: ``[CLS] A [SEP] B [SEP]``, B of type 1."""
    where = f"post_processor {kind}"
    more = " trim_offsets add_prefix_space" if kind == "RobertaProcessing" else ""
    refuse_unknown(settings, f"type sep cls{more}", where)
    for key in more.split():  # without them the reference takes the component for a BertProcessing
        take(settings, key, bool, where)
    cls, sep = (_named_id(settings.get(key), f"{where}: {key}") for key in ("cls", "sep"))
    single = (cls, Text("A"), sep)
    if kind == "RobertaProcessing":
        return Template(single, (*single, sep, Text("B"), sep), is_even=True)
    return Template(single, (*single, Text("B", 1), replace(sep, type_id=1)))


def _named_id(value: object, where: str) -> Special:
    if isinstance(value, list) and len(value) == 2 and isinstance(value[0], str):
        return Special(value[0], (_id(value[1], where),))
    raise VocabularyError(f"{where} must be a list of a token and its id, not {brief(value)}")


def _id(value: object, where: str) -> int:
    if type(value) is not int or not 0 <= value < 1 << 32:
        raise VocabularyError(f"{where}: {brief(value)} is not an id, an integer from 0 to 2**32 - 1")
    return value


def _template_processing(settings: dict[str, Any]) -> Template:
    where = "post_processor TemplateProcessing"
    refuse_unknown(settings, "type single pair special_tokens", where)
    ids: dict[str, tuple[int, ...]] = {}
    for name, special in take(settings, "special_tokens", dict, where).items():
        numbers = as_list(as_object(special, f"{where}: {name!r}").get("ids"), f"{where}: the ids of {name!r}")
        ids[name] = tuple(_id(number, f"{where}: {name!r}") for number in numbers)
    single, pair = (
        tuple(_piece(piece, ids, f"{where}: {key}") for piece in take(settings, key, list, where))
        for key in ("single", "pair")
    )
    if Text("B") in {replace(piece, type_id=0) for piece in single}:
        raise VocabularyError(f"{where}: single has a sequence B, but one text is all that there is")
    return Template(single, pair)


def _piece(value: object, ids: dict[str, tuple[int, ...]], where: str) -> Piece:
    if isinstance(value, dict) and len(value) == 1:
        (kind, piece), *_ = value.items()
        if isinstance(piece, dict) and isinstance(piece.get("id"), str):
            name, type_id = piece["id"], _id(piece.get("type_id"), f"{where}: type_id")
            if kind == "Sequence" and name == "A":
                return Text("A", type_id)
            if kind == "Sequence" and name == "B":
                return Text("B", type_id)
            if kind == "SpecialToken" and name in ids:
                return Special(name, ids[name], type_id)
            if kind == "SpecialToken":
                raise VocabularyError(f"{where}: {name!r} is not among its special_tokens")
    raise VocabularyError(f"{where}: {brief(value)} is neither a SpecialToken nor a Sequence A or B, with its type_id")
