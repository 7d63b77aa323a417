"""Functions of char(n) that count its padding spaces; all others take a varchar."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

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
    if name in _TRIMS and len(kinds) > 1 and isinstance(kinds[1], Char):
        return bind_call(name, [arguments[0], (arguments[1][0], types.VARCHAR)])
    chars = [kind.length for kind in kinds if isinstance(kind, Char)]
    is_joined = name in _CONCAT and len(chars) == len(kinds)
    if not chars or not (is_joined or name in _WITH_SPACES or name in _OF_SAME_LENGTH):
        return None
    texts = [
        (argument[0], types.VARCHAR) if isinstance(kind, Char) else argument
        for argument, kind in zip(arguments, kinds, strict=True)
    ]
    found, type_ = bind_call(name, texts)
    if is_joined and sum(chars) <= types.CHAR_LENGTH_MAX:
        return found, Char(sum(chars))
    return found, Char(chars[0]) if name in _OF_SAME_LENGTH else type_
