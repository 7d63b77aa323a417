"""Functions of char(n) that count its padding spaces; all others take a varchar."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sqlglot import exp

from seamline.sql import types
from seamline.sql.binder.scope import Typed
from seamline.sql.types import Char

_WITH_SPACES = frozenset({"format", "length", "lpad", "substr", "substring", "to_utf8"})
"""Functions that take a char with its spaces."""
_OF_SAME_LENGTH = frozenset({"lower", "reverse", "title_case", "upper"})
"""Those whose result is a char as long as their argument."""
_TRIMS = frozenset({"trim", "ltrim", "rtrim", "$trim", "$ltrim", "$rtrim"})
"""Functions whose second argument is characters, among which a char's spaces count."""
_CONCAT = frozenset({"$concat", "concat"})


def bind(name: str, arguments: Sequence[Any], bind_call: Callable[..., Typed]) -> Typed | None:
    """Binds a call whose arguments include a char with its spaces; None for any other."""
    kinds = [argument[1] if isinstance(argument, tuple) else None for argument in arguments]
    if name in _TRIMS and len(kinds) == 2 and any(isinstance(kind, Char) for kind in kinds):
        return _trim(name, arguments[0], arguments[1], bind_call)
    chars = [kind.length for kind in kinds if isinstance(kind, Char)]
    is_joined = name in _CONCAT and len(chars) == len(kinds)
    if not chars or not (is_joined or name in _WITH_SPACES or name in _OF_SAME_LENGTH):
        return None
    texts = [
        (argument[0], types.VARCHAR) if isinstance(kind, Char) else argument
        for argument, kind in zip(arguments, kinds, strict=True)
    ]
    node, type_ = bind_call(name, texts)
    if is_joined and sum(chars) <= types.CHAR_LENGTH_MAX:
        return node, Char(sum(chars))
    return node, Char(chars[0]) if name in _OF_SAME_LENGTH else type_


def _trim(name: str, text: Typed, characters: Typed, bind_call: Callable[..., Typed]) -> Typed:
    """Binds a call that trims characters; what is left of a char ends with no space either."""

    def unpadded(value: Typed) -> Typed:
        return bind_call("$rtrim", [value, (exp.Literal.string(" "), types.VARCHAR)])

    if isinstance(characters[1], Char):
        characters = characters[0], types.VARCHAR
    if not isinstance(text[1], Char):
        return bind_call(name, [text, characters])
    return unpadded(bind_call(name, [unpadded((text[0], types.VARCHAR)), characters]))
