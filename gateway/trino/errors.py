"""Maps our errors to Trino's, for Trino's clients.

Clients and tools match on Trino's own names and numbers: dbt on TABLE_NOT_FOUND, drivers on the
number 46. An error of ours that corresponds to exactly one of Trino's therefore has that one's
name, number and type in Trino's protocol; its own name is in `failureInfo`. All others keep theirs,
whose numbers Trino does not use. PyHive matches on the words of the most common ones.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping

from seamline import errors as ours
from seamline.errors import ErrorCode, ErrorKind, SeamlineError


@dataclasses.dataclass(frozen=True, slots=True)
class TrinoError:
    """One of Trino's standard errors.

    Attributes:
        name: What clients see as `errorName`.
        number: What they see as `errorCode`.
        kind: What they see as `errorType`.
    """

    name: str
    number: int
    kind: ErrorKind


def trino_error(code: ErrorCode) -> TrinoError:
    """Returns what an error is called in Trino's protocol: Trino's name or our own."""
    return TRINO_ERRORS[code] or TrinoError(code.name, code.number, code.kind)


def message_of(error: SeamlineError) -> str:
    """Returns an error's message, in Trino's words where tools look for those."""
    pattern, words = _WORDS.get(error.code, ("", ""))
    match = re.fullmatch(pattern, error.message)
    return words.format(match[1]) if match and words else error.message


_WORDS: Mapping[ErrorCode, tuple[str, str]] = {
    ours.CATALOG_NOT_FOUND: (r"catalog (\S+) does not exist", "Catalog '{}' not found"),
    ours.SCHEMA_NOT_FOUND: (
        r"schema (\S+)(?: of (?:catalog )?\S+)? does not exist",
        "Schema '{}' does not exist",
    ),
    ours.TABLE_NOT_FOUND: (r"table (.+) does not exist", "Table '{}' does not exist"),
    ours.COLUMN_NOT_FOUND: (r"column (.+) does not exist", "Column '{}' cannot be resolved"),
}
"""Our words, and Trino's."""


def _user(name: str, number: int) -> TrinoError:
    return TrinoError(name, number, ErrorKind.USER)


def _internal(name: str, number: int) -> TrinoError:
    return TrinoError(name, 0x1_0000 + number, ErrorKind.INTERNAL)


def _resources(name: str, number: int) -> TrinoError:
    return TrinoError(name, 0x2_0000 + number, ErrorKind.INSUFFICIENT_RESOURCES)


_NOT_FOUND = _user("NOT_FOUND", 5)
_NOT_SUPPORTED = _user("NOT_SUPPORTED", 13)
_SYNTAX_ERROR = _user("SYNTAX_ERROR", 1)
_TABLE_NOT_FOUND = _user("TABLE_NOT_FOUND", 46)

TRINO_ERRORS: Mapping[ErrorCode, TrinoError | None] = {
    # The statement is wrong
    ours.SYNTAX_ERROR: _SYNTAX_ERROR,
    ours.MULTIPLE_STATEMENTS: _SYNTAX_ERROR,
    ours.STATEMENT_NOT_ALLOWED: _NOT_SUPPORTED,
    ours.STATEMENT_TOO_LARGE: _user("QUERY_TEXT_TOO_LARGE", 35),
    ours.CATALOG_NOT_FOUND: _user("CATALOG_NOT_FOUND", 44),
    ours.SCHEMA_NOT_FOUND: _user("SCHEMA_NOT_FOUND", 45),
    ours.TABLE_NOT_FOUND: _TABLE_NOT_FOUND,
    ours.COLUMN_NOT_FOUND: _user("COLUMN_NOT_FOUND", 47),
    ours.COLUMN_AMBIGUOUS: _user("AMBIGUOUS_NAME", 62),
    ours.TYPE_MISMATCH: _user("TYPE_MISMATCH", 58),
    ours.MERGE_TARGET_ROW_MULTIPLE_MATCHES: _user("MERGE_TARGET_ROW_MULTIPLE_MATCHES", 119),
    ours.FUNCTION_NOT_FOUND: _user("FUNCTION_NOT_FOUND", 6),
    ours.NOT_SUPPORTED: _NOT_SUPPORTED,
    ours.GROUPING_ERROR: None,  # several of Trino's, such as EXPRESSION_NOT_AGGREGATE
    ours.INVALID_PARAMETERS: _user("INVALID_PARAMETER_USAGE", 80),
    ours.INVALID_LITERAL: _user("INVALID_LITERAL", 59),
    ours.DIVISION_BY_ZERO: _user("DIVISION_BY_ZERO", 8),
    ours.INVALID_CAST: _user("INVALID_CAST_ARGUMENT", 9),
    ours.NUMERIC_OVERFLOW: _user("NUMERIC_VALUE_OUT_OF_RANGE", 19),
    ours.SUBQUERY_MULTIPLE_ROWS: _user("SUBQUERY_MULTIPLE_ROWS", 28),
    ours.INVALID_ARGUMENT: _user("INVALID_FUNCTION_ARGUMENT", 7),
    ours.EVALUATION_FAILED: None,
    # Tables and their definition
    ours.TABLE_EXISTS: _user("TABLE_ALREADY_EXISTS", 50),
    ours.TOPIC_NOT_FOUND: None,
    ours.INVALID_TABLE_DEFINITION: None,  # several, such as INVALID_TABLE_PROPERTY
    ours.INFERENCE_FAILED: None,
    ours.NOT_A_UNIFIED_TABLE: None,
    ours.INVALID_VIEW: _user("INVALID_VIEW", 11),
    ours.VIEW_IS_STALE: _user("VIEW_IS_STALE", 81),
    ours.VIEW_IS_RECURSIVE: _user("VIEW_IS_RECURSIVE", 82),
    ours.SCHEMA_EXISTS: _user("SCHEMA_ALREADY_EXISTS", 49),
    ours.SCHEMA_NOT_EMPTY: _user("SCHEMA_NOT_EMPTY", 34),
    ours.TABLE_TIERED_ELSEWHERE: None,
    ours.OFFSETS_NOT_STORED: None,
    ours.ADOPTION_REFUSED: None,
    # Requests
    ours.INVALID_REQUEST: None,
    ours.UNAUTHENTICATED: None,
    ours.LOGIN_KEYS_UNAVAILABLE: None,
    ours.TOO_MANY_LOGINS: None,
    ours.PERMISSION_DENIED: _user("PERMISSION_DENIED", 4),
    ours.STATEMENT_NOT_FOUND: _NOT_FOUND,
    ours.STATEMENT_LOST: None,
    ours.CANCELED: _user("USER_CANCELED", 3),
    ours.DEADLINE_EXCEEDED: _resources("EXCEEDED_TIME_LIMIT", 3),
    ours.NOT_FOUND: _NOT_FOUND,
    ours.METHOD_NOT_ALLOWED: None,
    ours.CATALOG_READ_ONLY: None,
    ours.VIEW_NOT_FOUND: _TABLE_NOT_FOUND,
    ours.PLAN_NOT_FOUND: None,
    ours.INVALID_SESSION_PROPERTY: _user("INVALID_SESSION_PROPERTY", 14),
    ours.PREPARED_STATEMENT_NOT_FOUND: _NOT_FOUND,
    # Tokens
    ours.INVALID_TOKEN: None,
    ours.TOKEN_EXPIRED: None,
    ours.HISTORY_CHANGED: None,
    ours.WRITE_NOT_VISIBLE: None,
    # The seam
    ours.TOPIC_RECREATED: None,
    ours.LOG_TRIMMED: None,
    ours.LOG_TRUNCATED: None,
    ours.SNAPSHOT_GONE: None,
    ours.TIERING_GAP: None,
    ours.BOUNDARY_MISSING: None,
    ours.BOUNDARY_INVALID: None,
    ours.UPSERT_ORDER_UNKNOWN: None,
    ours.BAD_RECORD: None,
    ours.SCHEMA_INCOMPATIBLE: None,
    ours.SCHEMA_NOT_EVOLVED: None,
    ours.SECOND_WRITER: None,
    ours.BOUNDARY_NOT_TRUSTED: None,
    ours.COMMIT_CONFLICT: None,  # its Iceberg connector's own, which other connectors do not have
    ours.READ_CONFLICT: None,
    # The outside world
    ours.KAFKA_UNAVAILABLE: None,
    ours.SCHEMA_REGISTRY_UNAVAILABLE: None,
    ours.CATALOG_UNAVAILABLE: _user("CATALOG_UNAVAILABLE", 125),
    ours.CATALOG_ACCESS_DENIED: None,
    ours.STORAGE_UNAVAILABLE: None,
    ours.COLD_FILE_MISSING: None,
    ours.COLD_FILE_INVALID: None,
    ours.LOCATION_NOT_ALLOWED: None,
    ours.PROPERTY_NOT_ALLOWED: None,
    ours.SPARK_UNAVAILABLE: None,
    ours.SPARK_FAILED: None,
    ours.GATEWAY_UNAVAILABLE: None,
    # Set-up
    ours.INVALID_CONFIG: None,
    ours.MISSING_EXTRA: None,
    ours.JAVA_NOT_FOUND: None,
    ours.JAVA_UNSUPPORTED: None,
    ours.PORT_TAKEN: None,
    ours.JARS_UNAVAILABLE: None,
    ours.LOCAL_STACK_FAILED: None,
    ours.LOCAL_STACK_DOWN: None,
    ours.STATE_DIRECTORY_TAKEN: None,
    ours.JARS_CHANGED: None,
    ours.PACKAGE_CONFLICT: None,
    # Limits
    ours.MEMORY_LIMIT: _resources("EXCEEDED_LOCAL_MEMORY_LIMIT", 7),
    ours.TAIL_TOO_LARGE: None,
    ours.RESULT_TOO_LARGE: None,
    ours.TOO_MANY_STATEMENTS: _resources("QUERY_QUEUE_FULL", 2),
    ours.SCAN_TOO_LARGE: _resources("EXCEEDED_SCAN_LIMIT", 9),
    ours.DISK_FULL: None,
    ours.REQUEST_TOO_LARGE: None,
    ours.SHUTTING_DOWN: _internal("SERVER_SHUTTING_DOWN", 9),
    ours.STATEMENT_KILLED: None,
    # Ours
    ours.INTERNAL_ERROR: _internal("GENERIC_INTERNAL_ERROR", 0),
}
"""Trino's error for each of ours; None where none, or more than one, corresponds to it."""
