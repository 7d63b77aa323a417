"""A minimal SQL tokenizer for clients: it finds where statements end.

Only the gateway decides what a valid statement is. Here a semicolon ends a statement, unless it is
inside a string, a quoted name or a comment.
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
    """A token of a text.

    Attributes:
        kind: `comment`, `string`, `quoted`, `open` (an unterminated string, quoted name or
            comment), `number`, `word`, `space`, `end` or `other`.
        text: The token's text.
        start: Where it begins.
    """

    kind: str
    text: str
    start: int


@dataclasses.dataclass(frozen=True, slots=True)
class Statement:
    """A statement of a script.

    Attributes:
        text: The text from its first token to its last, without the semicolon.
        number: Its number in the script, from 1.
        line: The line of the script on which it begins, from 1.
        column: The column in that line, from 1.
        ended: Whether a semicolon ended it.
    """

    text: str
    number: int = 1
    line: int = 1
    column: int = 1
    ended: bool = True

    def in_script(self, location: Location) -> Location:
        """Converts a position in the statement to a position in the script."""
        column = location.column + (self.column - 1 if location.line == 1 else 0)
        return Location(location.line + self.line - 1, column)

    @property
    def first_word(self) -> str:
        """The first word of the statement, in lower case."""
        return next((t.text.lower() for t in tokens(self.text) if t.kind == "word"), "")

    @property
    def is_raw(self) -> bool:
        """Whether its result is lines of text for people rather than a table."""
        return _RAW.match(self.text) is not None

    @property
    def defines(self) -> bool:
        """Whether it may change which names exist."""
        return self.first_word in _DEFINES


def tokens(text: str) -> Iterator[Token]:
    """Yields all tokens of a text; concatenated, they are the text."""
    for match in _TOKEN.finditer(text):
        assert match.lastgroup is not None
        yield Token(match.lastgroup, match[0], match.start())


def statements(script: str) -> list[Statement]:
    """Returns the statements of a script, in order; comments alone are not a statement."""
    parts: list[Statement] = []
    start = end = None
    for token in [*tokens(script), Token("end", "", len(script))]:
        if token.kind == "end":
            if start is not None and end is not None:
                line = script.count("\n", 0, start) + 1
                column = start - (script.rfind("\n", 0, start) + 1) + 1
                text = script[start:end]
                parts.append(Statement(text, len(parts) + 1, line, column, bool(token.text)))
            start = end = None
        elif token.kind not in {"space", "comment"}:
            start = token.start if start is None else start
            end = token.start + len(token.text)
    return parts


def is_complete(text: str) -> bool:
    """Whether a semicolon ended the last statement of a text, or there is no statement."""
    parts = statements(text)
    return not parts or parts[-1].ended
