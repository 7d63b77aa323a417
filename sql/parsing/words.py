"""Splits a statement into bounded tokens, and provides a reader for keyword grammars.

Bracket depth, operator chains and token count are bounded here, before any parser sees the
statement.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import Token, TokenType

from seamline.errors import (
    INVALID_LITERAL,
    MULTIPLE_STATEMENTS,
    STATEMENT_TOO_LARGE,
    SYNTAX_ERROR,
    Location,
    SeamlineError,
)
from seamline.sql.locations import location_at
from seamline.sql.parsing.dialects import SeamlineDialect, tokens_of

TOKENS_MAX = 50_000
DEPTH_MAX = 60
NUMBER_MAX = 1_000
"""Maximum number of characters in a number; Python parses no more than a few thousand."""
CHAIN_MAX = 1_000
"""Maximum number of operators of one kind in a row; each makes the tree one level deeper."""


_NUMBER = re.compile(
    r"0[xX](?P<hex>_?[0-9a-fA-F]+(_[0-9a-fA-F]+)*)|0[oO](?P<octal>_?[0-7]+(_[0-7]+)*)"
    r"|0[bB](?P<binary>_?[01]+(_[01]+)*)"
    r"|(?P<decimal>\d+(_\d+)*(\.(\d+(_\d+)*)?)?|\.\d+(_\d+)*)([eE][+-]?\d+)?"
)
_BASES = {"hex": 16, "octal": 8, "binary": 2}
_DIGIT_WORD = re.compile(r"(?<!\.)\d\w+")
_SHOWN = 20
"""Characters of a number that an error's message shows."""


def _with_numbers(sql: str, tokens: list[Token]) -> list[Token]:
    """Merges numbers in other bases, or with _ between their digits, into one token each.

    Raises:
        SeamlineError: SYNTAX_ERROR for letters that follow a number at once, as in Trino.
    """
    merged: list[Token] = []
    end = -1  # the end of the last number
    for token in tokens:
        if token.start <= end:
            continue
        merged.append(token)
        if token.token_type is not TokenType.NUMBER:
            continue
        match = _NUMBER.match(sql, token.start)
        word = _DIGIT_WORD.match(sql, token.start)
        word_end = max(token.end + 1, word.end() if word is not None else 0)
        if match is None or match.end() < word_end:
            text = sql[token.start : word_end]
            shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
            raise SeamlineError(
                SYNTAX_ERROR,
                f"{shown} is neither a number nor a name",
                location=location_of(token),
                hint="Put a space after a number, and double quotes around a name that begins "
                "with a digit.",
            )
        base = match.lastgroup if match.lastgroup in _BASES else None
        if base is None and "_" not in match[0]:
            continue
        text = match[0].replace("_", "")
        if base is not None:
            text = str(int(match[base].replace("_", ""), _BASES[base]))
        end = match.end() - 1
        column = token.col + end - token.end
        merged[-1] = Token(
            TokenType.NUMBER, text, token.line, column, token.start, end, token.comments
        )
    return merged


def _with_bytes(tokens: list[Token]) -> list[Token]:
    """Merges the X of X'65 66' with the text that follows it at once."""
    merged = tokens[:1]
    for token in tokens[1:]:
        before = merged[-1]
        is_mark = before.token_type is TokenType.VAR and before.text.upper() == "X"
        if is_mark and token.token_type is TokenType.STRING and token.start == before.end + 1:
            digits = "".join(token.text.split())
            position = (token.line, token.col, before.start, token.end)
            merged[-1] = Token(TokenType.HEX_STRING, digits, *position, before.comments)
        else:
            merged.append(token)
    return merged


_CLAUSES = {TokenType.FETCH, TokenType.LIMIT, TokenType.OFFSET, TokenType.WINDOW}
_BEFORE_OPERANDS = {
    *(TokenType.SELECT, TokenType.DISTINCT, TokenType.COMMA, TokenType.L_PAREN, TokenType.DOT),
    *(TokenType.FROM, TokenType.JOIN, TokenType.WITH, TokenType.L_BRACKET, TokenType.ARROW),
    *(TokenType.WHERE, TokenType.GROUP_BY, TokenType.HAVING, TokenType.ORDER_BY, TokenType.ON),
    *(TokenType.AND, TokenType.OR, TokenType.NOT, TokenType.BETWEEN, TokenType.ALIAS),
    *(TokenType.CASE, TokenType.WHEN, TokenType.THEN, TokenType.ELSE, TokenType.PARTITION_BY),
    *(TokenType.EQ, TokenType.NEQ, TokenType.LT, TokenType.GT, TokenType.LTE, TokenType.GTE),
    *(TokenType.PLUS, TokenType.DASH, TokenType.SLASH, TokenType.MOD, TokenType.DPIPE),
}  # fmt: skip
_OPENS = {"ALL", "ANY", "IF", "LATERAL", "MATCH_RECOGNIZE"}
"""Words that begin something only before a bracket."""
_BEFORE_ALL = {TokenType.UNION, TokenType.EXCEPT, TokenType.INTERSECT, TokenType.LIMIT}
_AFTER_NAMES = {
    *(TokenType.COMMA, TokenType.R_PAREN, TokenType.DOT, TokenType.ALIAS, TokenType.FROM),
    *(TokenType.EQ, TokenType.NEQ, TokenType.LT, TokenType.GT, TokenType.LTE, TokenType.GTE),
    *(TokenType.PLUS, TokenType.DASH, TokenType.SLASH, TokenType.STAR, TokenType.MOD),
    *(TokenType.DPIPE, TokenType.L_BRACKET, TokenType.IS, TokenType.IN, TokenType.BETWEEN),
}  # fmt: skip


def _with_names(tokens: list[Token]) -> list[Token]:
    """Turns keywords into names where they can be nothing else, as in Trino."""
    merged: list[Token] = []
    for index, token in enumerate(tokens):
        before = tokens[index - 1].token_type if index else None
        after = tokens[index + 1] if index + 1 < len(tokens) else None
        if token.token_type in _CLAUSES:
            is_name = before in _BEFORE_OPERANDS
        else:
            is_name = token.text.upper() in _WORDS and not _is_word(token, before, after)
        if is_name and token.token_type is not TokenType.STRING:
            where = (token.line, token.col, token.start, token.end)
            token = Token(TokenType.IDENTIFIER, token.text, *where, token.comments)
        merged.append(token)
    return merged


_WORDS = _OPENS | {"INTERVAL", "TABLESAMPLE"}
_AMOUNTS = {
    *(TokenType.STRING, TokenType.NUMBER, TokenType.PLUS, TokenType.DASH, TokenType.L_PAREN),
    *(TokenType.PLACEHOLDER, TokenType.PARAMETER, TokenType.COLON),
}  # fmt: skip
"""What an interval's amount begins with, in any dialect."""
_SAMPLES = {"BERNOULLI", "POISSON", "SYSTEM"}


def _is_word(token: Token, before: TokenType | None, after: Token | None) -> bool:
    """Whether a word that may be a name is a keyword between its neighbours."""
    kind = after.token_type if after is not None else None
    match token.text.upper():
        case "INTERVAL":
            return kind in _AMOUNTS
        case "TABLESAMPLE":
            return after is not None and after.text.upper() in _SAMPLES
        case "ALL" if before in _BEFORE_ALL:
            return True
        case "IF" if before not in _BEFORE_OPERANDS:
            return True  # IF EXISTS
        case "LATERAL" if before is TokenType.R_PAREN:
            return False
        case "ALL" if before in {TokenType.SELECT, TokenType.L_PAREN}:
            return after is not None and kind not in _AFTER_NAMES
        case "ALL" if before is TokenType.GROUP_BY:
            return kind not in _AFTER_NAMES - {TokenType.R_PAREN}
    return kind is TokenType.L_PAREN


def _check_numbers(tokens: Sequence[Token]) -> None:
    """Refuses numbers that are longer than any meaningful one.

    Raises:
        SeamlineError: INVALID_LITERAL.
    """
    for token in tokens:
        if token.token_type is TokenType.NUMBER and len(token.text) > NUMBER_MAX:
            raise SeamlineError(
                INVALID_LITERAL,
                f"the number {token.text[:_SHOWN]}… has {len(token.text):,} characters; at most "
                f"{NUMBER_MAX:,} are allowed",
                location=location_of(token),
            )


def tokenize(sql: str) -> list[Token]:
    """Splits a text into tokens.

    Raises:
        SeamlineError: SYNTAX_ERROR, STATEMENT_TOO_LARGE, INVALID_LITERAL.
    """
    try:
        tokens = _with_numbers(sql, _with_bytes(tokens_of(SeamlineDialect(), sql)))
        tokens = _with_names(tokens)
    except TokenError as error:
        raise SeamlineError(
            SYNTAX_ERROR,
            "a string, a quoted name or a comment is not closed",
            location=location_at(sql, _begin_of(error, sql)),
        ) from error
    if len(tokens) > TOKENS_MAX:
        raise SeamlineError(
            STATEMENT_TOO_LARGE,
            f"the statement has {len(tokens)} words; at most {TOKENS_MAX} are allowed",
        )
    _check_chains(tokens)
    _check_numbers(tokens)
    depth = 0
    for token in tokens:
        if token.token_type in _OPENING:
            depth += 1
        elif token.token_type in _CLOSING:
            depth -= 1
        if depth > DEPTH_MAX:
            raise SeamlineError(
                STATEMENT_TOO_LARGE,
                f"brackets are nested deeper than {DEPTH_MAX} levels",
                location=location_of(token),
            )
    return tokens


_BINDING = {
    TokenType.OR: 0,
    TokenType.AND: 1,
    **dict.fromkeys((TokenType.EQ, TokenType.NEQ, TokenType.LT, TokenType.GT), 2),
    **dict.fromkeys((TokenType.LTE, TokenType.GTE), 2),
    **dict.fromkeys((TokenType.PLUS, TokenType.DASH, TokenType.DPIPE), 3),
    **dict.fromkeys((TokenType.STAR, TokenType.SLASH, TokenType.MOD), 4),
}
"""Operators by how tightly they bind; an operator ends the chains of those that bind tighter."""
_PART = {TokenType.COMMA, TokenType.SELECT, TokenType.FROM, TokenType.WHERE, TokenType.ON,
         TokenType.HAVING, TokenType.WHEN, TokenType.THEN, TokenType.ELSE}  # fmt: skip
"""Tokens after which another expression begins."""


def _check_chains(tokens: Sequence[Token]) -> None:
    """Refuses operator chains so long that a parser would exhaust Python's stack.

    Raises:
        SeamlineError: STATEMENT_TOO_LARGE.
    """
    none = [0] * (max(_BINDING.values()) + 1)
    outer: list[list[int]] = []
    chains, is_range = none.copy(), False
    for token in tokens:
        kind = token.token_type
        if kind in _OPENING:
            outer.append(chains)
            chains = none.copy()
        elif kind in _CLOSING:
            chains = outer.pop() if outer else none.copy()
        elif kind in _PART:
            chains = none.copy()
        elif kind is TokenType.BETWEEN:
            is_range = True
        elif kind is TokenType.AND and is_range:
            is_range = False
        elif kind in _BINDING:
            binding = _BINDING[kind]
            chains[binding:] = [chains[binding] + 1, *none[binding + 1 :]]
            if chains[binding] > CHAIN_MAX:
                raise SeamlineError(
                    STATEMENT_TOO_LARGE,
                    f"more than {CHAIN_MAX} operators {token.text.upper()} in a row",
                    location=location_of(token),
                    hint="Conditions on one column are shorter with IN, and lists are VALUES.",
                )


_OPENING = {TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE, TokenType.CASE}
_CLOSING = {TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE, TokenType.END}


def _begin_of(error: TokenError, sql: str) -> int:
    """Returns the index at which the unclosed text begins, according to the tokenizer."""
    match = re.search(r"from \d+:(\d+)", str(error.__cause__))
    return int(match[1]) if match is not None else len(sql)


def one_statement(tokens: list[Token]) -> list[Token]:
    """Returns the tokens of the only statement, without semicolons around it.

    Raises:
        SeamlineError: SYNTAX_ERROR when there is none, MULTIPLE_STATEMENTS.
    """
    while tokens and tokens[-1].token_type == TokenType.SEMICOLON:
        tokens = tokens[:-1]
    while tokens and tokens[0].token_type == TokenType.SEMICOLON:
        tokens = tokens[1:]
    if not tokens:
        raise SeamlineError(SYNTAX_ERROR, "the statement is empty", location=Location(1, 1))
    for token in tokens:
        if token.token_type == TokenType.SEMICOLON:
            raise SeamlineError(
                MULTIPLE_STATEMENTS, "there is more than one statement", location=location_of(token)
            )
    return tokens


def location_of(token: Token) -> Location:
    """Returns where a token begins."""
    return Location(token.line, max(1, token.col - (token.end - token.start)))


class Words:
    """Reads the tokens of statements that have a keyword grammar."""

    def __init__(self, tokens: Sequence[Token], sql: str = "") -> None:
        self._tokens = tokens
        self.sql = sql
        self._at = 0

    def peek(self, ahead: int = 0) -> str:
        """Returns an upcoming word in upper case, or '' at the end."""
        at = self._at + ahead
        return self._tokens[at].text.upper() if at < len(self._tokens) else ""

    def location(self, ahead: int = 0) -> Location | None:
        """Returns the location of an upcoming word, or None at the end."""
        at = self._at + ahead
        return location_of(self._tokens[at]) if at < len(self._tokens) else None

    def take(self, *words: str) -> bool:
        """Consumes these keywords if they come next; returns whether they did."""
        left, at = list(words), self._at
        while left:
            token = self._tokens[at] if at < len(self._tokens) else None
            if token is None or token.token_type in {TokenType.IDENTIFIER, TokenType.STRING}:
                return False
            parts = token.text.upper().split()  # some tokens hold several words, as RESET SESSION
            if parts != left[: len(parts)]:
                return False
            left, at = left[len(parts) :], at + 1
        self._at = at
        return True

    def require(self, word: str) -> None:
        """Consumes a keyword.

        Raises:
            SeamlineError: SYNTAX_ERROR when it does not come next.
        """
        if not self.take(word):
            raise self.unexpected(self._next(word), word)

    def name(self) -> tuple[str, ...]:
        """Reads a name of one or more parts."""
        parts = [self.identifier()]
        while self.take("."):
            parts.append(self.identifier())
        return tuple(parts)

    def string(self) -> str:
        """Reads a quoted string."""
        token = self._next("a string")
        if token.token_type != TokenType.STRING:
            raise self.unexpected(token)
        return token.text

    def is_string(self) -> bool:
        """Whether the next word is a quoted string."""
        upcoming = self._tokens[self._at : self._at + 1]
        return any(token.token_type == TokenType.STRING for token in upcoming)

    def constant(self) -> str:
        """Reads a string, a number or a boolean, and returns it as text."""
        sign = "-" if self.take("-") else ""
        token = self._next("a value")
        if token.token_type == TokenType.NUMBER:
            return sign + token.text
        if not sign and token.token_type == TokenType.STRING:
            return token.text
        if not sign and token.token_type in {TokenType.TRUE, TokenType.FALSE}:
            return token.text.lower()
        raise self.unexpected(token, "a text, a number, true or false")

    def rest(self) -> list[Token]:
        """Consumes and returns all remaining tokens."""
        rest = list(self._tokens[self._at :])
        self._at = len(self._tokens)
        return rest

    def text(self) -> str:
        """Returns the text of all remaining tokens as written, without consuming them."""
        if self._at >= len(self._tokens):
            return ""
        return self.sql[self._tokens[self._at].start : self._tokens[-1].end + 1]

    def end(self) -> None:
        """Checks that no tokens remain.

        Raises:
            SeamlineError: SYNTAX_ERROR when one does.
        """
        if self._at < len(self._tokens):
            raise self.unexpected(self._tokens[self._at])

    def identifier(self) -> str:
        """Reads a name of one part."""
        token = self._next("a name")
        plain = re.fullmatch(r"[A-Za-z_$][\w$]*", token.text) is not None
        if token.token_type == TokenType.IDENTIFIER or (
            plain and token.token_type != TokenType.STRING
        ):
            return token.text
        raise self.unexpected(token)

    def unexpected(self, token: Token, expected: str = "") -> SeamlineError:
        """Returns the error for a token that is not allowed there."""
        hint = f"{expected} is expected there." if expected else None
        return SeamlineError(
            SYNTAX_ERROR, f"unexpected {token.text!r}", location=location_of(token), hint=hint
        )

    def unexpected_next(self, expected: str) -> SeamlineError:
        """Returns the error for the next token, or for its absence."""
        return self.unexpected(self._next(expected), expected)

    def missing(self, what: str) -> SeamlineError:
        """Returns the error for a statement that ends too early."""
        end = self._tokens[-1]
        return SeamlineError(
            SYNTAX_ERROR,
            f"{what} is expected at the end of the statement",
            location=Location(end.line, end.col + 1),
        )

    def _next(self, what: str) -> Token:
        if self._at >= len(self._tokens):
            raise self.missing(what)
        self._at += 1
        return self._tokens[self._at - 1]
