"""Names what other databases have and this one does not, by the words that it is written with.

A statement that cannot be parsed may be correct in Trino, or elsewhere. Its error then names what
is missing and says what to write instead, rather than pointing at a word that is not expected; and
a keyword with a wrong letter is named. This only explains a refusal: a statement that can be parsed
is never looked at.
"""

from __future__ import annotations

import bisect
import dataclasses
import difflib
import re
from collections.abc import Sequence

from sqlglot.tokenizer_core import Token, TokenType

from seamline.errors import (
    NOT_SUPPORTED,
    STATEMENT_NOT_ALLOWED,
    SYNTAX_ERROR,
    ErrorCode,
    SeamlineError,
)
from seamline.sql.parsing.words import location_of


@dataclasses.dataclass(frozen=True, slots=True)
class Part:
    """A part of SQL that is not offered.

    Attributes:
        words: A pattern of the statement's words, in upper case with one space between them.
        name: Its name; if it is empty, the words that are found.
        instead: The remedy.
        code: The error; STATEMENT_NOT_ALLOWED for a whole kind of statement.
    """

    words: str
    name: str
    instead: str
    code: ErrorCode = NOT_SUPPORTED


_RULES = "Rights are in the file of rules that auth.rules names: see docs/security.md."
_CASE_OPERATORS = "(=|<>|!=|<|<=|>|>=|IN|BETWEEN|LIKE|IS)"
_CHANGE = "^(INSERT|DELETE|UPDATE|MERGE) "
_COLUMN = r"COLUMN (IF (NOT )?EXISTS )?[^ ]+"

_STATEMENTS = (
    Part(
        r"^(CREATE|REFRESH|DROP|ALTER|SHOW CREATE|COMMENT ON)( OR REPLACE)? MATERIALIZED VIEW",
        "",
        "CREATE VIEW computes its query when it is read; CREATE TABLE … AS keeps its rows.",
    ),
    Part(r"^REFRESH VIEW|^ALTER VIEW .* REFRESH", "REFRESH VIEW", "CREATE OR REPLACE VIEW does."),
    Part(
        r"^(CREATE|DROP|SHOW CREATE)( OR REPLACE)? FUNCTION",
        "",
        "Write the expression, or a view that computes it.",
    ),
    Part(
        r"^(CREATE|DROP|ALTER) CATALOG",
        "",
        "Catalogs are in the gateway's configuration: see docs/catalogs.md.",
    ),
    Part(r"^SET PATH", "SET PATH", "USE sets the schema in which names are looked up."),
    Part(
        r"^ANALYZE\b",
        "ANALYZE",
        "There is nothing to collect: Iceberg keeps statistics with every file, and SHOW STATS "
        "FOR t shows them.",
    ),
    Part(
        r"^(CREATE|DROP|ALTER)( OR REPLACE)? BRANCH",
        "",
        "SHOW BRANCHES FROM TABLE t lists branches, and FOR VERSION AS OF 'branch' reads one.",
    ),
    Part(
        r"^ALTER SCHEMA .* RENAME",
        "ALTER SCHEMA",
        "Create another schema, and rename its tables into it.",
    ),
    Part(r"^ALTER SCHEMA .* SET AUTHORIZATION", "ALTER SCHEMA", _RULES),
)
"""Kinds of statements."""

_PARTS = (
    Part(r"\bSET AUTHORIZATION", "SET AUTHORIZATION", _RULES),
    Part(r"^CREATE SCHEMA .* AUTHORIZATION", "AUTHORIZATION", _RULES),
    Part(r"^CREATE SCHEMA .* WITH \(", "CREATE SCHEMA … WITH", "The catalog chooses the location."),
    Part(
        rf"^ALTER TABLE .* {_COLUMN} .* LAST$",
        "LAST in ADD COLUMN",
        "A column is added after the others; a query may name them in any order.",
    ),
    Part(
        r"^ALTER TABLE .* SET PROPERTIES .*= DEFAULT",
        "DEFAULT as the value of a property",
        "Write the value: docs/tables.md lists the defaults.",
    ),
    Part(
        r"^(ALTER|CREATE( OR REPLACE)?) TABLE .*\bDEFAULT\b",
        "DEFAULT of a column",
        "Write the value in INSERT; coalesce(x, value) reads it.",
    ),
    Part(
        rf"^ALTER TABLE .* {_COLUMN} SET NOT NULL",
        "SET NOT NULL",
        "CREATE OR REPLACE TABLE … AS makes the table anew; NOT NULL can only be dropped.",
    ),
    Part(
        r"^(DESCRIBE|DESC) (OUTPUT|INPUT) \(",
        "DESCRIBE OUTPUT and INPUT of a query",
        "PREPARE name FROM query, and DESCRIBE OUTPUT name.",
    ),
    Part(
        r"^INSERT INTO [^(]*? @ ",
        "writing to a branch",
        "SELECT … FROM t FOR VERSION AS OF 'branch' reads one.",
    ),
    Part(rf"{_CHANGE}.*\bRETURNING\b", "RETURNING", "A SELECT afterwards reads the rows."),
    Part(
        r"\b(NUMBER|VARIANT|OBJECTID|COLOR) '…'",
        "a literal of this type",
        "Use decimal, json or varchar: docs/reference/not-there.md lists the types.",
    ),
    Part(r"^WITH SESSION\b", "WITH SESSION", "SET SESSION name = value sets a property."),
    Part(
        r"\b(MEASURES|PATTERN \()",
        "a pattern of rows in a window",
        "lag, lead and sums over a window find most patterns.",
    ),
    Part(
        rf"\bWHEN (NOT )?{_CASE_OPERATORS} ",
        "CASE with conditions that lack their left side",
        "CASE WHEN x > 0 THEN …",
    ),
    Part(
        r"\bMATCH ((UNIQUE|SIMPLE|PARTIAL|FULL) )*\(",
        "the predicate MATCH",
        "IN, EXISTS and count(*) compare with the rows of a query.",
    ),
    Part(
        r"\b(WHERE|AND|OR|NOT|ON|HAVING|WHEN|SELECT) UNIQUE \(",
        "the predicate UNIQUE",
        "Compare count(*) with the count of SELECT DISTINCT.",
    ),
    Part(
        r"\bJOIN NEAREST \(",
        "JOIN NEAREST",
        "Use max_by over a join with <=, or ORDER BY … LIMIT 1 in LATERAL.",
    ),
    Part(
        r"\bFORMAT JSON ENCODING\b",
        "FORMAT JSON ENCODING",
        "from_utf8(x) reads JSON in a varbinary, and to_utf8(x) makes it one.",
    ),
    Part(
        r"\bJSON_TABLE \(",
        "JSON_TABLE",
        "UNNEST(CAST(json_extract(…) AS array(…))) makes rows of JSON.",
    ),
)
"""Parts of statements of a kind that is accepted; the first that is found names the error."""

_HABITS = (
    Part(r"(?<=SELECT )TOP \(? ?([0-9]+|\?|:)", "TOP", "LIMIT n at the end of the query."),
    Part(
        r"\bQUALIFY\b",
        "QUALIFY",
        "SELECT * FROM (SELECT …, row_number() OVER (…) AS r FROM t) WHERE r = 1",
    ),
    Part(r"`", "quoting a name with `", 'Write "name".'),
    Part(r"!? ?~ ?\*?", "", "regexp_like(x, '…') finds patterns."),
    Part(r"<=>", "<=>", "IS NOT DISTINCT FROM compares nulls, too."),
    Part(r"&&", "&&", "Write AND."),
    Part(r"\bMINUS (ALL )?(SELECT|\()", "MINUS", "Write EXCEPT."),
    Part(r"\bFOR (NO KEY )?(UPDATE|SHARE)\b", "", "Statements read one moment and lock nothing."),
    Part(r"\bWITH \( NOLOCK \)", "NOLOCK", "Statements read one moment and lock nothing."),
    Part(
        r"\bON (CONFLICT|DUPLICATE KEY)\b",
        "",
        "MERGE INTO t USING … ON … WHEN MATCHED THEN UPDATE … WHEN NOT MATCHED THEN INSERT …",
    ),
    Part(r"^INSERT OVERWRITE\b", "INSERT OVERWRITE", "DELETE, then INSERT INTO, or MERGE."),
    Part(r"^INSERT (?!INTO\b)", "INSERT without INTO", "INSERT INTO t …"),
    Part(
        r"^DELETE (?!FROM\b)[^ ]+( \. [^ ]+)*( WHERE|$)",
        "DELETE without FROM",
        "DELETE FROM t WHERE …",
    ),
    Part(
        r"^UPDATE [^ ]+( \. [^ ]+)* (?!SET\b|\.)[^ ]+ =",
        "UPDATE without SET",
        "UPDATE t SET x = …",
    ),
    Part(r"^ALTER TABLE .* ADD (?!COLUMN\b)", "ADD without COLUMN", "ADD COLUMN name type"),
    Part(
        r"^ALTER TABLE .* (MODIFY|CHANGE)\b",
        "MODIFY of a column",
        "ALTER COLUMN name SET DATA TYPE type",
    ),
    Part(
        r"^DROP (?!TABLE|VIEW|SCHEMA|CATALOG|ROLE|FUNCTION|BRANCH|MATERIALIZED)",
        "",
        "DROP TABLE, VIEW or SCHEMA name.",
    ),
)
"""What other databases write inside statements."""

_STATEMENTS_ELSEWHERE = (
    Part(r"^SHOW DATABASES", "SHOW DATABASES", "SHOW SCHEMAS, or SHOW CATALOGS."),
    Part(r"^SHOW VIEWS", "SHOW VIEWS", "SELECT * FROM information_schema.views"),
    Part(r"^SHOW (INDEX|INDEXES|KEYS)\b", "", "SHOW CREATE TABLE t shows partitions and order."),
    Part(r"^SHOW (FULL )?PROCESSLIST", "", "SELECT * FROM system.queries"),
    Part(r"^SHOW (VARIABLES|SETTINGS|ALL|PARAMETERS)\b", "", "SHOW SESSION"),
    Part(r"^USE DATABASE\b", "USE DATABASE", "USE schema, or USE catalog.schema."),
    Part(
        r"^(DESCRIBE|DESC) (FORMATTED|EXTENDED|TABLE)\b", "", "DESCRIBE t, or SHOW CREATE TABLE t."
    ),
    Part(r"^(BEGIN|BEGIN TRANSACTION|BEGIN WORK)$", "", "START TRANSACTION"),
    Part(r"^(ABORT|END)( TRANSACTION| WORK)?$", "", "ROLLBACK, or COMMIT."),
    Part(
        r"^(VACUUM|OPTIMIZE|COMPACT)\b",
        "",
        "ALTER TABLE t EXECUTE optimize, or expire_snapshots(retention_threshold => '7d').",
    ),
    Part(
        r"^(COPY|UNLOAD|EXPORT|LOAD)\b",
        "",
        "`seamline query --output FILE` writes rows to a file; CREATE TABLE … AS to a table.",
    ),
    Part(r"^(ATTACH|INSTALL|DETACH)\b", "", "Catalogs are in the gateway's configuration."),
    Part(r"^PRAGMA\b", "PRAGMA", "DESCRIBE t, SHOW SESSION or SET SESSION name = value."),
    Part(r"^(REPLACE|UPSERT) INTO\b", "", "MERGE INTO t USING … ON …"),
    Part(r"^(EXEC|EXECUTE PROCEDURE)\b", "", "CALL catalog.system.procedure(…)"),
    Part(r"^CREATE (UNIQUE )?INDEX\b", "", "WITH (partitioning = …, sorted_by = …) orders files."),
    Part(r"^CREATE( OR REPLACE)? DATABASE\b", "CREATE DATABASE", "CREATE SCHEMA"),
    Part(r"^CREATE (TEMP|TEMPORARY|GLOBAL|LOCAL)\b", "", "WITH name AS (…) before the query."),
    Part(r"^(CREATE|ALTER|DROP) (USER|GROUP)\b", "", _RULES),
    Part(r"^SET (?!SESSION|TIME ZONE|ROLE)[^ ]+ (=|TO)", "SET", "SET SESSION name = value"),
    Part(r"^(LOCK|UNLOCK)\b", "", "Statements read one moment and lock nothing."),
    Part(r"^(HELP|QUIT|EXIT)$", "", "It is a word of the prompt: `seamline` on a terminal."),
    Part(
        r"^\\",
        "a command that begins with \\",
        "It is one of the prompt: `seamline` on a terminal.",
    ),
)
"""Kinds of statements of other databases."""

ABSENT = (
    *(dataclasses.replace(kind, code=STATEMENT_NOT_ALLOWED) for kind in _STATEMENTS_ELSEWHERE),
    *(dataclasses.replace(kind, code=STATEMENT_NOT_ALLOWED) for kind in _STATEMENTS),
    *_PARTS,
    *_HABITS,
)
"""What is recognised, the more special before the more general."""

_REFUSALS = (SYNTAX_ERROR, STATEMENT_NOT_ALLOWED, NOT_SUPPORTED)


def explained(error: SeamlineError, tokens: Sequence[Token]) -> SeamlineError:
    """Returns the error for a refused statement: that of what is absent, if it is known."""
    if error.code not in _REFUSALS:
        return error
    begins, length = [], 0
    for word in (words := [_word(token) for token in tokens]):
        begins.append(length)
        length += len(word) + 1
    text = " ".join(words)
    for part in ABSENT:
        match = re.search(part.words, text)
        if match is not None:
            return SeamlineError(
                part.code,
                f"{part.name or match[0].strip()} is not {_REFUSED[part.code]}",
                location=location_of(tokens[bisect.bisect_right(begins, _offset(part, match)) - 1]),
                hint=part.instead,
            )
    if error.code is SYNTAX_ERROR and error.hint == SYNTAX_ERROR.hint:
        error.hint = _keyword(error, tokens) or error.hint
    return error


def _keyword(error: SeamlineError, tokens: Sequence[Token]) -> str | None:
    """Returns which keyword is meant by a word near an error, if one has a wrong letter."""
    locations = [location_of(token) for token in tokens]
    if error.location not in locations:
        return None
    at = locations.index(error.location)
    for token in (*tokens[max(0, at - 1) : at + 1][::-1], *tokens[at + 1 : at + 2]):
        word = token.text.upper()
        if word in _WITH_BY:
            return f"Did you mean {word} BY?"
        if token.token_type is TokenType.VAR and word not in _KEYWORDS:
            close = difflib.get_close_matches(word, _KEYWORDS, 1, _ALIKE_MIN)
            if close:
                return f"Did you mean {close[0]}?"
    return None


_WITH_BY = ("GROUP", "ORDER", "PARTITION")
_ALIKE_MIN = 0.74
_KEYWORDS = (
    *("SELECT", "FROM", "WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "OFFSET", "DISTINCT"),
    *("JOIN", "INNER", "LEFT", "RIGHT", "CROSS", "UNION", "EXCEPT", "INTERSECT", "BETWEEN"),
    *("VALUES", "INSERT", "INTO", "UPDATE", "DELETE", "CREATE", "TABLE", "DESCRIBE", "EXPLAIN"),
    *("EXISTS", "CASE", "WHEN", "THEN", "ELSE", "DESC", "PARTITION", "OVER", "USING", "SHOW"),
)


def _offset(part: Part, match: re.Match[str]) -> int:
    """Returns where a part is: at its first word, or at the last if a statement leads up to it."""
    if part.code is NOT_SUPPORTED and part.words.startswith("^"):
        return len(match[0].rstrip()) - 1
    return match.start()


_REFUSED = {NOT_SUPPORTED: "supported", STATEMENT_NOT_ALLOWED: "allowed"}


def _word(token: Token) -> str:
    """Returns a word as patterns see it: texts and quoted names can be nothing in a pattern."""
    if token.token_type is TokenType.STRING:
        return "'…'"
    if token.token_type is TokenType.IDENTIFIER:
        return '"…"'
    return token.text.upper()
