"""Redaction of the values in a statement's text, for records of who asked what.

Statements that differ only in literals, comments and whitespace have the same redacted text.
"""

from __future__ import annotations

import sqlglot
from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import Token, TokenType

from seamline.errors import SeamlineError
from seamline.sql.parsing.words import tokenize

PLACE = "?"


def redacted(sql: str, dialect: str | None = None) -> str | None:
    """Replaces each string and number by `?`, drops comments and collapses whitespace.

    Args:
        sql: A statement, which need not be valid.
        dialect: The dialect it is written in, if not our own.

    Returns:
        The redacted text; None when the statement cannot be tokenized, as no part of it is then
        safe to show.
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
    tokens: list[Token] = sqlglot.Dialect.get_or_raise(dialect).tokenize(sql)
    return tokens


def _is_value(word: Token) -> bool:
    name = word.token_type.name
    return word.token_type is TokenType.NUMBER or "STRING" in name or name == "HEREDOC"
