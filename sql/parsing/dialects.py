"""The grammars that read statements: our own, and other dialects that are translated into it.

Each grammar records the position of a `?` in the text, because a tree has an order of its own.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Mapping
from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.dialects.trino import Trino
from sqlglot.errors import ParseError, SqlglotError
from sqlglot.tokenizer_core import Token, TokenType

from seamline.errors import (
    INVALID_ARGUMENT,
    INVALID_PARAMETERS,
    MULTIPLE_STATEMENTS,
    PACKAGE_CONFLICT,
    STATEMENT_NOT_ALLOWED,
    STATEMENT_TOO_LARGE,
    SYNTAX_ERROR,
    Location,
    SeamlineError,
)
from seamline.sql.absent_types import ABSENT_TYPES, absent_type
from seamline.sql.locations import token_position
from seamline.sql.near import did_you_mean
from seamline.sql.parsing.listagg import parse_listagg
from seamline.sql.trees import nodes_of_kind

if not inspect.isfunction(sqlglot.Parser.parse):
    raise SeamlineError(
        PACKAGE_CONFLICT,
        "sqlglotc is installed: Seamline's grammar cannot extend sqlglot's once it is compiled",
        hint="pip uninstall sqlglotc",
    )

_EXPONENT = re.compile(
    r"'[^']*'?|\"[^\"]*\"?|--[^\n]*|/\*(?:.*?\*/|.*)"
    r"|(?<!\w)(?P<number>(?:\d[\d_]*(?:\.[\d_]*)?|\.\d[\d_]*)[eE][+-]?\d+)(?=[+-])",
    re.DOTALL,
)
"""A number with an exponent before a sign, or text without one."""
_SPECIAL_SYNTAX = ("CAST", "TRY_CAST", "EXTRACT", "OVERLAY", "POSITION", "SUBSTRING", "TRIM")

FROM_ZERO = "$from_zero"
"""Wraps a subscript that a translated statement counts from 0."""
TEXT = "$text"
"""Wraps text that a translated statement may compare with a date or a number."""
DAYS = "$days"
"""Wraps an operand that a translated statement may add to a date as a number of days."""
CAST = "cast"
"""Metadata key of a conversion written as CAST rather than as a literal after its type."""
_STRICT = frozenset({"trino", "presto", "athena"})
_IN_DAYS = frozenset({"duckdb", "postgres", "redshift", "snowflake", "materialize", "risingwave"})
_PLUS_DAYS = frozenset({"spark", "spark2", "databricks", "hive", "bigquery"})
"""Dialects where date minus date is in days; this set takes only whole numbers for days."""


class SqlJson(exp.Expression, exp.Func):
    """JSON_EXISTS, JSON_VALUE or JSON_QUERY: `this` is the text, `path` the path.

    `empty` and `error` hold the ON EMPTY and ON ERROR clauses: lower-case words, or a default.
    """

    arg_types = {  # noqa: RUF012 - sqlglot's way of declaring a node
        "this": True,
        "path": True,
        "function": True,
        "passing": False,
        "returning": False,
        "wrapper": False,
        "quotes": False,
        "empty": False,
        "error": False,
    }
    _sql_names = ["SEAMLINE_JSON"]  # noqa: RUF012

    @property
    def name_of_function(self) -> str:
        """The name of the JSON function."""
        return str(self.args["function"])


class SqlJsonMade(exp.Expression, exp.Func):
    """JSON_OBJECT or JSON_ARRAY: `expressions` are its members, each a `SqlJsonMember`."""

    arg_types = {  # noqa: RUF012 - sqlglot's way of declaring a node
        "expressions": False,
        "function": True,
        "nulls": False,
        "unique": False,
        "returning": False,
    }
    _sql_names = ["SEAMLINE_JSON_MADE"]  # noqa: RUF012

    @property
    def name_of_function(self) -> str:
        """The name of the JSON function."""
        return str(self.args["function"])


class SqlJsonMember(exp.Expression):
    """A member of constructed JSON: its value, its key in an object, and if it is JSON text."""

    arg_types = {"this": True, "key": False, "format": False}  # noqa: RUF012


def _is_word(node: exp.Expr | None, word: str) -> bool:
    """Whether a node is a name alone, without quotes, that is spelt like a word."""
    name = node.this if isinstance(node, exp.Column) and len(node.parts) == 1 else node
    return isinstance(name, exp.Identifier) and not name.quoted and name.name.upper() == word


def _parse_char_literal(parser: Any, text: exp.Expr, data_type: exp.DataType) -> exp.Expr:
    """Parses CHAR '…', which is as long as its text."""
    if not data_type.expressions:
        length = exp.DataTypeParam(this=exp.Literal.number(len(text.name)))
        data_type.set("expressions", [length])
    return parser.expression(exp.Cast(this=text, to=data_type))  # type: ignore[no-any-return]


_OF_SEVERAL_MEANINGS = frozenset({"FIXED", "INT8", "NUMBER"})
"""Type names of other dialects that sqlglot maps to Trino's types, although they are ambiguous.

They stand for 8 bits or 8 bytes, or for a number with or without a scale.
"""

_PLAIN_WORDS = frozenset({"GRANT", "LOCK", "RETURNING", "REVOKE", "ROLLBACK", "UNCACHE"})
"""Words that are key words to sqlglot, and names to Trino wherever a statement does not start."""

_DEPTH = {TokenType.L_PAREN: 1, TokenType.R_PAREN: -1}
_AFTER_ROWS = frozenset(
    {
        *(TokenType.UNION, TokenType.EXCEPT, TokenType.INTERSECT),
        *(TokenType.ORDER_BY, TokenType.LIMIT, TokenType.OFFSET, TokenType.FETCH),
    }
)
"""Tokens that follow VALUES when its rows are a query, not a source."""

STEPS_MAX = 200_000
"""Token steps that a parser may take in addition to its allowance per token.

A parser that reads no token twice takes slightly more than one step per token.
"""
_STEPS_OF_WORD = 10

_SQL_JSON_MADE = ("JSON_OBJECT", "JSON_ARRAY")
_SQL_JSON = ("JSON_EXISTS", "JSON_VALUE", "JSON_QUERY")
_WRAPPERS = {
    "WITHOUT CONDITIONAL": "without",
    "WITHOUT": "without",
    "WITH CONDITIONAL": "conditional",
    "WITH UNCONDITIONAL": "unconditional",
    "WITH": "unconditional",
}
_INSTEAD = ("NULL", "ERROR", "EMPTY ARRAY", "EMPTY OBJECT", "TRUE", "FALSE", "UNKNOWN")


def _parse_sql_json(parser: Any, name: str) -> SqlJson:
    """Parses the arguments of JSON_EXISTS, JSON_VALUE or JSON_QUERY."""
    match = parser._match_text_seq  # noqa: SLF001 - how sqlglot's parsers are extended
    node = SqlJson(this=parser._parse_bitwise(), function=name)  # noqa: SLF001
    match("FORMAT", "JSON")
    parser._match(TokenType.COMMA)  # noqa: SLF001
    node.set("path", parser._parse_bitwise())  # noqa: SLF001
    if match("PASSING"):
        node.set("passing", parser._parse_csv(lambda: _parse_passed(parser)))  # noqa: SLF001
    if match("RETURNING"):
        node.set("returning", parser._parse_types())  # noqa: SLF001
        match("FORMAT", "JSON")
    for words, wrapper in _WRAPPERS.items():
        if match(*words.split()):
            match("ARRAY")
            match("WRAPPER")
            node.set("wrapper", wrapper)
            break
    for kind in ("KEEP", "OMIT"):
        if match(kind, "QUOTES"):
            match("ON", "SCALAR", "STRING")
            node.set("quotes", kind.lower())
    while (instead := _parse_instead(parser)) is not None:
        if not match("ON", "EMPTY") and not match("ON", "ERROR"):
            parser.raise_error("Expected ON EMPTY or ON ERROR")
        node.set(parser._prev.text.lower(), instead)  # noqa: SLF001
    return node


def _parse_passed(parser: Any) -> SqlJsonMember:
    """Parses a value of PASSING and its name, which is in capitals unless it is quoted."""
    value = parser._parse_disjunction()  # noqa: SLF001
    is_json = bool(parser._match_text_seq("FORMAT", "JSON"))  # noqa: SLF001
    if not parser._match(TokenType.ALIAS):  # noqa: SLF001
        parser.raise_error("Expected AS and a name")
    name = parser._parse_id_var()  # noqa: SLF001
    text = name.name if name.args.get("quoted") else name.name.upper()
    return SqlJsonMember(this=value, key=exp.Literal.string(text), format=is_json)


def _parse_sql_json_made(parser: Any, name: str) -> SqlJsonMade:
    """Parses the arguments of JSON_OBJECT or JSON_ARRAY."""
    match = parser._match_text_seq  # noqa: SLF001 - how sqlglot's parsers are extended
    node = SqlJsonMade(function=name)
    while not parser._match_set((TokenType.R_PAREN,), advance=False):  # noqa: SLF001
        if parser._curr is None or _parse_made_options(parser, node):  # noqa: SLF001
            break
        node.append("expressions", _parse_member(parser, has_key=name == "JSON_OBJECT"))
        if not parser._match(TokenType.COMMA):  # noqa: SLF001
            _parse_made_options(parser, node)
            break
    if match("RETURNING"):
        node.set("returning", parser._parse_types())  # noqa: SLF001
        match("FORMAT", "JSON")
    return node


def _parse_member(parser: Any, *, has_key: bool) -> SqlJsonMember:
    match, key = parser._match_text_seq, None  # noqa: SLF001
    if has_key:
        start = parser._index  # noqa: SLF001
        if match("KEY") and (match("VALUE") or match(":")):
            parser._retreat(start)  # noqa: SLF001 - a column of that name
        key = parser._parse_bitwise()  # noqa: SLF001
        if not match(":") and not match("VALUE"):
            parser.raise_error("Expected a colon or VALUE")
    value = parser._parse_disjunction()  # noqa: SLF001
    return SqlJsonMember(this=value, key=key, format=bool(match("FORMAT", "JSON")))


def _parse_made_options(parser: Any, node: SqlJsonMade) -> bool:
    """Parses the clauses that follow the members; returns whether there were any."""
    match, start = parser._match_text_seq, parser._index  # noqa: SLF001
    for nulls in ("NULL", "ABSENT"):
        if match(nulls, "ON", "NULL"):
            node.set("nulls", nulls.lower())
    for words in ("WITH", "WITHOUT"):
        if node.name_of_function == "JSON_OBJECT" and match(words, "UNIQUE"):
            match("KEYS")
            node.set("unique", words == "WITH")
    return bool(parser._index != start)  # noqa: SLF001


def _parse_instead(parser: Any) -> str | exp.Expr | None:
    for words in _INSTEAD:
        if parser._match_text_seq(*words.split()):  # noqa: SLF001
            return words.lower()
    if parser._match_text_seq("DEFAULT"):  # noqa: SLF001
        default: exp.Expr | None = parser._parse_bitwise()  # noqa: SLF001
        return default
    return None


class _PlacedPlaceholders:
    """A sqlglot parser that records where each `?` is, since a tree has an order of its own."""

    def _parse_placeholder(self) -> exp.Expr | None:
        first: Token | None = self._curr  # type: ignore[attr-defined]
        placeholder: exp.Expr | None = super()._parse_placeholder()  # type: ignore[misc]
        if isinstance(placeholder, exp.Placeholder) and not placeholder.this:
            assert first is not None
            placeholder.meta.update(token_position(first))
        return placeholder


class _PlainBrackets:
    """A sqlglot parser to which brackets after a field or a quoted name are a subscript.

    sqlglot makes an array of them if the name is `array` or `list`, whatever it is the name of.
    """

    ARRAY_CONSTRUCTORS: dict[str, Any] = {}  # noqa: RUF012 - sqlglot's way of configuring a parser

    def _parse_bracket(self, this: exp.Expr | None = None) -> exp.Expr | None:
        """Parses brackets: an array after the bare word ARRAY, else a subscript, if any."""
        is_next = self._match(TokenType.L_BRACKET, advance=False)  # type: ignore[attr-defined]
        is_array = is_next and _is_word(this, "ARRAY")
        node: exp.Expr | None = super()._parse_bracket(None if is_array else this)  # type: ignore[misc]
        return node


class SeamlineDialect(Trino):
    """Trino's grammar, with every function call kept as it was written."""

    INDEX_OFFSET = 0
    PREFER_COLUMNS_TO_ALIASES_IN_HAVING_AND_QUALIFY = True

    class Tokenizer(Trino.Tokenizer):
        """Trino's tokenizer, without the statements that swallow their text unparsed."""

        COMMANDS = set()  # noqa: RUF012 - sqlglot's way of configuring a tokenizer
        HEX_STRINGS = []  # noqa: RUF012 - `words.tokenize` reads them, blanks and all
        KEYWORDS = {  # noqa: RUF012
            word: token
            for word, token in Trino.Tokenizer.KEYWORDS.items()
            if word not in _OF_SEVERAL_MEANINGS | _PLAIN_WORDS
        }

    class Parser(_PlacedPlaceholders, _PlainBrackets, Trino.Parser):  # type: ignore[valid-type, misc]
        """Trino's parser without its table of functions.

        The parser tries alternative readings of some tokens one after the other, and again inside
        the parentheses of each. Nested rows would multiply these attempts, so steps are counted.

        Raises:
            SeamlineError: STATEMENT_TOO_LARGE.
        """

        FUNCTIONS: dict[str, Any] = {}  # noqa: RUF012 - sqlglot's way of configuring a parser
        FUNCTION_PARSERS = (
            {n: p for n, p in Trino.Parser.FUNCTION_PARSERS.items() if n in _SPECIAL_SYNTAX}
            | {n: functools.partial(_parse_sql_json, name=n) for n in _SQL_JSON}
            | {n: functools.partial(_parse_sql_json_made, name=n) for n in _SQL_JSON_MADE}
            | {"LISTAGG": parse_listagg}
        )
        NO_PAREN_FUNCTION_PARSERS = {  # noqa: RUF012 - sqlglot's way of extending a parser
            **Trino.Parser.NO_PAREN_FUNCTION_PARSERS,
            "CURRENT_SCHEMA": lambda _: exp.CurrentSchema(),
        }
        TYPE_LITERAL_PARSERS = {  # noqa: RUF012
            **Trino.Parser.TYPE_LITERAL_PARSERS,
            exp.DType.CHAR: _parse_char_literal,
        }
        COLUMN_OPERATORS = {  # noqa: RUF012 - a `?` is a placeholder, never PostgreSQL's operator
            token: parser
            for token, parser in Trino.Parser.COLUMN_OPERATORS.items()
            if token != TokenType.PLACEHOLDER
        }
        _steps = 0

        def reset(self) -> None:
            """Resets the parser and its step count."""
            super().reset()
            self._steps = 0

        def _parse_derived_table_values(self, allow_value_synonym: bool = False) -> Any:
            """Parses VALUES in parentheses as a source, unless it continues as a query."""
            if self._match_pair(TokenType.L_PAREN, TokenType.VALUES, advance=False):
                depth = 0
                for index in range(self._index + 1, len(self._tokens)):
                    kind = self._tokens[index].token_type
                    depth += _DEPTH.get(kind, 0)
                    if depth < 0:
                        break
                    if depth == 0 and kind in _AFTER_ROWS:
                        return None
            return super()._parse_derived_table_values(allow_value_synonym)

        def build_cast(self, strict: bool, **parts: Any) -> exp.Expr:
            """Marks CAST and `::`, which sqlglot confuses with a literal after its type."""
            cast: exp.Expr = super().build_cast(strict, **parts)
            cast.meta[CAST] = True
            return cast

        def _parse_at_time_zone(self, this: exp.Expr | None) -> exp.Expr | None:
            """Parses what may be followed by AT TIME ZONE, or by AT LOCAL: in the session's."""
            if this is None or not self._match_text_seq("AT", "LOCAL"):
                node: exp.Expr | None = super()._parse_at_time_zone(this)
                return node
            zone = exp.Anonymous(this="current_timezone")
            return self._parse_at_time_zone(exp.AtTimeZone(this=this, zone=zone))

        def _parse_interval_span(self, this: exp.Expr, parse_function_unit: bool = True) -> Any:
            """Parses an interval; a text of a number and a unit holds nothing else."""
            interval = super()._parse_interval_span(this, parse_function_unit)
            is_whole = interval.this.name == this.name or exp.INTERVAL_STRING_RE.fullmatch(
                this.name
            )
            if this.is_string and not is_whole:
                self.raise_error(f"'{this.name}' is not an interval")
            return interval

        def _advance(self, times: int = 1) -> None:
            self._steps += 1
            if self._steps > STEPS_MAX + _STEPS_OF_WORD * self._tokens_size:
                raise SeamlineError(
                    STATEMENT_TOO_LARGE,
                    "the statement is nested in too many ways",
                    hint="Give a part of it a name, in WITH.",
                )
            super()._advance(times)


# --- Other dialects ----------------------------------------------------------------------------


def translate(sql: str, dialect: str) -> tuple[str, int]:
    """Translates a query from another dialect into ours, as far as sqlglot can.

    Each `?` becomes a name that `numbered_by_name` reads.

    Returns:
        The text, and the number of `?` in the original.

    Raises:
        SeamlineError: SYNTAX_ERROR, MULTIPLE_STATEMENTS, STATEMENT_NOT_ALLOWED, INVALID_ARGUMENT,
            INVALID_PARAMETERS.
    """
    reader = reader_of(dialect)
    tree = _parse_foreign(sql, reader)
    count = number_placeholders(tree)
    if count:
        _named_by_number(tree)
    _mark_subscripts(tree, reader.INDEX_OFFSET)
    if dialect.lower() not in _STRICT:
        _mark_texts(tree)
    if dialect.lower() in _IN_DAYS | _PLUS_DAYS:
        _mark_days(tree, numbers_only=dialect.lower() in _PLUS_DAYS)
    return tree.sql("trino"), count


def reader_of(dialect: str) -> sqlglot.Dialect:
    """Returns the dialect of that name.

    Raises:
        SeamlineError: INVALID_ARGUMENT.
    """
    try:
        # sqlglot's Athena only chooses between Hive, for definitions, and Trino, for queries
        return sqlglot.Dialect.get_or_raise(
            {"athena": "trino"}.get(dialect.lower(), dialect.lower())
        )
    except ValueError as error:
        raise SeamlineError(INVALID_ARGUMENT, f"the dialect {dialect!r} is not known") from error


def tokens_of(reader: sqlglot.Dialect, sql: str) -> list[Token]:
    """Splits a text into tokens; the sign after an exponent, as in `1e0+2`, is an operator.

    sqlglot takes such a sign for one of the number. So it is shown a number of the same length
    without an exponent.

    Raises:
        TokenError: A string, a quoted name or a comment is not closed.
    """
    shown = _EXPONENT.sub(lambda m: "1" * len(m[0]) if m["number"] else m[0], sql)
    tokens = reader.tokenize(shown)
    if shown == sql:
        return tokens
    return [
        Token(t.token_type, sql[t.start : t.end + 1], t.line, t.col, t.start, t.end, t.comments)
        if t.token_type is TokenType.NUMBER
        else t
        for t in tokens
    ]


def _parse_foreign(sql: str, reader: sqlglot.Dialect) -> exp.Query:
    try:
        trees = _placing(reader.parser_class)(dialect=reader).parse(tokens_of(reader, sql), sql)
    except ParseError as error:
        raise syntax_error(error) from error
    except SqlglotError as error:
        raise SeamlineError(SYNTAX_ERROR, first_line(str(error))) from error
    statements = [tree for tree in trees if tree is not None]
    if len(statements) > 1:
        raise SeamlineError(MULTIPLE_STATEMENTS, "there is more than one statement")
    if not statements or not isinstance(statements[0], exp.Query):
        name = type(reader).__name__
        raise SeamlineError(
            STATEMENT_NOT_ALLOWED, f"only queries are translated from the dialect {name}"
        )
    return statements[0]


def _mark_subscripts(tree: exp.Expr, offset: int) -> None:
    """Marks subscripts that count from 0: sqlglot shifts only literals, even the keys of maps."""
    for bracket in tree.find_all(exp.Bracket):
        counts_from = bracket.args.get("offset", offset)
        is_element = not bracket.args.get("json_access") and bracket.find(exp.Slice) is None
        if counts_from == 0 and is_element:
            marked = [exp.Anonymous(this=FROM_ZERO, expressions=[i]) for i in bracket.expressions]
            bracket.set("expressions", marked)


_COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Between, exp.In)


def _mark_texts(tree: exp.Expr) -> None:
    """Marks text in comparisons, which other dialects read as a date if the other side is one."""
    for literal in list(tree.find_all(exp.Literal)):
        if literal.is_string and isinstance(literal.parent, _COMPARISONS):
            literal.replace(exp.Anonymous(this=TEXT, expressions=[literal.copy()]))


def _mark_days(tree: exp.Expr, *, numbers_only: bool) -> None:
    """Marks operands of additions and subtractions that may be numbers of days."""
    for node in list(tree.find_all(exp.Add, exp.Sub)):
        is_number = isinstance(node.expression, exp.Literal)
        if is_number or not (numbers_only or isinstance(node.expression, exp.Interval)):
            node.set("expression", exp.Anonymous(this=DAYS, expressions=[node.expression]))


@functools.cache
def _placing(parser: type[Any]) -> type[Any]:
    """Returns the parser of a dialect, extended to record where each `?` is."""

    class Placing(_PlacedPlaceholders, _PlainBrackets, parser):  # type: ignore[misc]
        pass

    return Placing


# --- Placeholders ------------------------------------------------------------------------------


def number_placeholders(tree: exp.Expr) -> int:
    """Numbers each `?` by its order in the text; returns how many there are."""
    placeholders = [node for node in nodes_of_kind(tree, exp.Placeholder) if not node.this]
    numbers = {
        start: i for i, start in enumerate(sorted({node.meta["start"] for node in placeholders}))
    }
    for node in placeholders:
        node.meta["number"] = numbers[node.meta["start"]]
    return len(numbers)


def _named_by_number(tree: exp.Expr) -> None:
    """Names each `?` by its number, so that it keeps the number in text of another order."""
    for node in tree.find_all(exp.Placeholder):
        if node.this:
            raise mixed_placeholders()
        node.set("this", f"p{node.meta['number']}")


def numbered_by_name(tree: exp.Expr) -> None:
    """Restores numbers from names: the inverse of `_named_by_number`."""
    for node in tree.find_all(exp.Placeholder):
        node.meta["number"] = int(node.name[1:])
        node.set("this", None)


_TYPES = (
    "boolean", "tinyint", "smallint", "integer", "bigint", "real", "double", "decimal", "varchar",
    "char", "varbinary", "date", "time", "timestamp", "interval", "uuid", "json", "array", "map",
    "row",
)  # fmt: skip

# --- Errors ------------------------------------------------------------------------------------


def mixed_placeholders() -> SeamlineError:
    """Returns the error for named and unnamed placeholders in one statement."""
    return SeamlineError(INVALID_PARAMETERS, "the statement mixes ? and :name placeholders")


def syntax_error(error: ParseError, first: str = "") -> SeamlineError:
    """Returns the error that says what a sqlglot parser rejected, and where."""
    details = error.errors[0] if error.errors else {}
    line, column = details.get("line"), details.get("col")
    near = (details.get("highlight") or "").strip()
    description = str(details.get("description") or first_line(str(error)))
    message = _message(description, near)
    hint = None
    is_type = description == "Expected TYPE after CAST" and re.match(r"\w", near)
    unknown = near if is_type else ""
    is_open = description == "Expecting )" and bool(details.get("end_context"))
    if is_open and first.upper() == "CREATE":
        unknown = _type_of_column(details)
    location = None
    if line and column:
        location = Location(int(line), max(1, int(column) - len(near) + 1))
    if unknown.partition("(")[0].lower() in ABSENT_TYPES:
        absent = absent_type(unknown)
        absent.location = location
        return absent
    if unknown:
        message = f"there is no type {unknown[:40]}"
        hint = did_you_mean(unknown.lower(), _TYPES) or f"Types are {', '.join(_TYPES)}."
    return SeamlineError(SYNTAX_ERROR, message, hint=hint, location=location)


_MESSAGES = (
    (r"Invalid expression / Unexpected token.*", "unexpected"),
    (r"Required keyword: '\w+' missing for .*", "an operand is missing near"),
    (r"Expected (END) after CASE.*", r"\1 of CASE is missing near"),
    (r"Expected (AS|TYPE|type) after .*", "AS and a type are missing near"),
    (r"Expected (.*?) but got .*", r"the \1 is missing near"),
    (r"Expected CTE to have alias", "a query of WITH has no name near"),
    (r"Expect(?:ed|ing) ([()\[\]{}>])", r"'\1' is missing near"),
    (r"Expect(?:ed|ing) ([A-Z]+(?: or [A-Za-z]+)?)\b.*", r"\1 is missing near"),
    (r"Cannot specify both ALL and DISTINCT.*", "ALL and DISTINCT exclude each other near"),
    (r"Found multiple '(.*)' clauses", r"\1 is there twice, near"),
)
"""What a parser says, as a pattern, and what is said instead, of the word that it names."""


def _message(description: str, near: str) -> str:
    """Returns the message for what a parser says of a word, which is the last one at the end."""
    for pattern, message in _MESSAGES:
        match = re.fullmatch(pattern, description, re.DOTALL)
        if match is not None:
            return f"{match.expand(message)} {near[:40]!r}"
    return f"the statement cannot be read near {near[:40]!r}"


_COLUMN = re.compile(r"""[(,]\s*("[^"]*"|[A-Za-z_]\w*)\s+$""")
_QUERY = re.compile(r"\bselect\b", re.IGNORECASE)


def _type_of_column(details: Mapping[str, Any]) -> str:
    """Returns the type at which a column's definition cannot be read; empty for anything else."""
    before, near = details.get("start_context") or "", details.get("highlight") or ""
    if not _COLUMN.search(before) or _QUERY.search(before) or not re.match(r"\w", near):
        return ""
    return near + _bracketed(details.get("end_context") or "")


def _bracketed(text: str) -> str:
    """Returns the brackets that a text begins with, and all that is between them."""
    depth = 0
    for index, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if depth <= 0:
            return text[: index + 1] if index else ""
    return text


def first_line(text: str) -> str:
    """Returns the first line of a message, without colour codes."""
    return re.sub(r"\x1b\[[0-9;]*m", "", text).strip().split("\n", maxsplit=1)[0]
