"""The text of a statement without what its author wrote as values, for records of who asked what.

Two statements that differ in literals, comments and blanks alone have the same such text.
"""

from __future__ import annotations

import sqlglot
from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import Token, TokenType

from seamline.errors import SeamlineError
from seamline.sql.words import tokenize

PLACE = "?"


def redacted(sql: str, dialect: str | None = None) -> str | None:
    """The text with a `?` for each string and number, without comments, blanks as one.

    Args:
        sql: A statement, which need not be a correct one.
        dialect: Another dialect that it is written in.

    Returns:
        None when its words cannot be told apart, so that nothing of it is safe to show.
    """
    try:
        words = tokenize(sql) if dialect is None else _words(sql, dialect)
    except (SeamlineError, SqlglotError, ValueError):
        return None
    parts, end = list[str](), 0
    for word in words:
        if parts and word.start > end:
            parts.append(" ")
        parts.append(PLACE if _is_value(word) else sql[word.start : word.end + 1])
        end = word.end + 1
    return "".join(parts)


def _words(sql: str, dialect: str) -> list[Token]:
    found: list[Token] = sqlglot.Dialect.get_or_raise(dialect).tokenize(sql)
    return found


def _is_value(word: Token) -> bool:
    name = word.token_type.name
    return word.token_type is TokenType.NUMBER or "STRING" in name or name == "HEREDOC"
