"""The words of SQL text, as far as a client must know them: where statements end.

What is a statement is for the gateway to say; here a semicolon ends one, unless it stands in a
string, a quoted name or a comment.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator

from seamline.errors import Location

_TOKEN = re.compile(
    r"""
      (?P<comment> --[^\n]* | /\*.*?\*/ )
    | (?P<string>  '[^']*(?:''[^']*)*' )
    | (?P<quoted>  "[^"]*(?:""[^"]*)*" )
    | (?P<open>    /\*.* | '.* | ".* )
    | (?P<number>  \d+(?:\.\d*)?(?:[eE][+-]?\d+)? )
    | (?P<word>    [^\W\d][\w$]* )
    | (?P<space>   \s+ )
    | (?P<end>     ; )
    | (?P<other>   . )
    """,
    re.DOTALL | re.VERBOSE,
)
_RAW = re.compile(r"EXPLAIN\b|SHOW\s+CREATE\b", re.IGNORECASE)
_DEFINES = frozenset({"alter", "call", "create", "drop", "use"})


@dataclasses.dataclass(frozen=True, slots=True)
class Token:
    """A piece of a text.

    Attributes:
        kind: `comment`, `string`, `quoted`, `open` (a string, a quoted name or a comment without an
            end), `number`, `word`, `space`, `end` or `other`.
        text: The piece.
        start: Where it begins.
    """

    kind: str
    text: str
    start: int


@dataclasses.dataclass(frozen=True, slots=True)
class Statement:
    """A statement of a script.

    Attributes:
        text: From its first word to its last, without the semicolon.
        number: Which one it is, from 1.
        line: The line of the script on which it begins, from 1.
        column: The column there, from 1.
        ended: Whether a semicolon ended it.
    """

    text: str
    number: int = 1
    line: int = 1
    column: int = 1
    ended: bool = True

    def in_script(self, place: Location) -> Location:
        """A place in the statement as one of the script."""
        column = place.column + (self.column - 1 if place.line == 1 else 0)
        return Location(place.line + self.line - 1, column)

    @property
    def first_word(self) -> str:
        """What it begins with, in lower case."""
        return next((t.text.lower() for t in tokens(self.text) if t.kind == "word"), "")

    @property
    def is_raw(self) -> bool:
        """Whether its result is a text for people, in lines, and no table."""
        return _RAW.match(self.text) is not None

    @property
    def defines(self) -> bool:
        """Whether names may be others after it."""
        return self.first_word in _DEFINES


def tokens(text: str) -> Iterator[Token]:
    """All pieces of a text; together they are the text."""
    for match in _TOKEN.finditer(text):
        assert match.lastgroup is not None
        yield Token(match.lastgroup, match[0], match.start())


def statements(script: str) -> list[Statement]:
    """The statements of a script, in order; nothing but comments is none."""
    found: list[Statement] = []
    start = end = None
    for token in [*tokens(script), Token("end", "", len(script))]:
        if token.kind == "end":
            if start is not None and end is not None:
                line = script.count("\n", 0, start) + 1
                column = start - (script.rfind("\n", 0, start) + 1) + 1
                text = script[start:end]
                found.append(Statement(text, len(found) + 1, line, column, bool(token.text)))
            start = end = None
        elif token.kind not in {"space", "comment"}:
            start = token.start if start is None else start
            end = token.start + len(token.text)
    return found


def is_complete(text: str) -> bool:
    """Whether the last statement of a text was ended, or there is none."""
    found = statements(text)
    return not found or found[-1].ended
