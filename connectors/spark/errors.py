"""Maps Spark's failures to our named errors, whatever their class and text."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping

from seamline.connectors.iceberg.errors import TAKEN
from seamline.connectors.protocols.deadlines import Deadline
from seamline.errors import (
    CATALOG_ACCESS_DENIED,
    CATALOG_UNAVAILABLE,
    COLD_FILE_INVALID,
    COLD_FILE_MISSING,
    COMMIT_CONFLICT,
    DIVISION_BY_ZERO,
    ERRORS,
    INVALID_ARGUMENT,
    INVALID_CAST,
    KAFKA_UNAVAILABLE,
    LOG_TRIMMED,
    NOT_SUPPORTED,
    NUMERIC_OVERFLOW,
    SNAPSHOT_GONE,
    SPARK_FAILED,
    SPARK_UNAVAILABLE,
    STATEMENT_TOO_LARGE,
    SUBQUERY_MULTIPLE_ROWS,
    ErrorCode,
    SeamlineError,
    sentence,
)

_RAISED_BY_US = re.compile(
    r"(?:\[USER_RAISED_EXCEPTION\] |SeamlineError: )([A-Z]+(?:_[A-Z]+)+)(?:: ([^\n]*))?"
)
_MESSAGES = {"DIVISION_BY_ZERO": "a divisor is zero"}
_CONDITIONS: Mapping[str, ErrorCode] = {
    "DIVIDE_BY_ZERO": DIVISION_BY_ZERO,
    "ARITHMETIC_OVERFLOW": NUMERIC_OVERFLOW,
    "NUMERIC_VALUE_OUT_OF_RANGE": NUMERIC_OVERFLOW,
    "CAST_OVERFLOW": NUMERIC_OVERFLOW,
    "BINARY_ARITHMETIC_OVERFLOW": NUMERIC_OVERFLOW,
    "CAST_INVALID_INPUT": INVALID_CAST,
    "SCALAR_SUBQUERY_TOO_MANY_ROWS": SUBQUERY_MULTIPLE_ROWS,
    "UNSUPPORTED_SUBQUERY_EXPRESSION_CATEGORY": NOT_SUPPORTED,
    # we generate all names, so the cause is a subquery that reads a query further out
    "UNRESOLVED_COLUMN": NOT_SUPPORTED,
    "FAILED_TO_PARSE_TOO_COMPLEX": STATEMENT_TOO_LARGE,
    "DUPLICATED_MAP_KEY": INVALID_ARGUMENT,
    "NULL_MAP_KEY": INVALID_ARGUMENT,
    "COMPARATOR_RETURNS_NULL": INVALID_ARGUMENT,  # of array_sort
    "KAFKA_DATA_LOSS": LOG_TRIMMED,
}
_BY_TEXT: tuple[tuple[str, ErrorCode], ...] = (
    # a REST catalog that refuses a token, with either of two statuses
    ("iceberg.exceptions.NotAuthorizedException", CATALOG_ACCESS_DENIED),
    ("iceberg.exceptions.RESTException: Unable to process (code: 419", CATALOG_ACCESS_DENIED),
    ("[SCALAR_SUBQUERY_TOO_MANY_ROWS]", SUBQUERY_MULTIPLE_ROWS),
    ("[UNSUPPORTED_SUBQUERY_EXPRESSION_CATEGORY", NOT_SUPPORTED),
    ("Cannot generate code for expression: outer(", NOT_SUPPORTED),
    ("StackOverflowError", STATEMENT_TOO_LARGE),
    ("Max iterations (", STATEMENT_TOO_LARGE),
    # Iceberg's validation of a commit against those of others
    ("Found conflicting files", COMMIT_CONFLICT),
    ("Found conflicting deleted files", COMMIT_CONFLICT),
    ("Found new conflicting delete files", COMMIT_CONFLICT),
    ("Found concurrently added DV", COMMIT_CONFLICT),
    ("Cannot commit, found new ", COMMIT_CONFLICT),
    ("Cannot commit, missing data files", COMMIT_CONFLICT),
    *((text, COMMIT_CONFLICT) for text in TAKEN),
    ("CommitFailedException", COMMIT_CONFLICT),
    ("could not be found in the latest snapshot", COMMIT_CONFLICT),
    ("Missing required files to delete", COMMIT_CONFLICT),
    ("Cannot determine history between starting snapshot", COMMIT_CONFLICT),
    ("Cannot find snapshot", SNAPSHOT_GONE),
    ("NotFoundException", COLD_FILE_MISSING),
    ("FileNotFoundException", COLD_FILE_MISSING),
    ("does not exist", COLD_FILE_MISSING),
    ("not a Parquet file", COLD_FILE_INVALID),
    ("StatusCode.UNAVAILABLE", SPARK_UNAVAILABLE),
    ("failed to connect", SPARK_UNAVAILABLE),
    ("stopped SparkContext", SPARK_UNAVAILABLE),
    ("NO_ACTIVE_SESSION", SPARK_UNAVAILABLE),
    ("No active or default Spark session", SPARK_UNAVAILABLE),
    ("RESPONSE_ALREADY_RECEIVED", SPARK_UNAVAILABLE),
    ("some data may have been lost", LOG_TRIMMED),
    ("org.apache.kafka.common.errors.TimeoutException", KAFKA_UNAVAILABLE),
    ("iceberg.exceptions.RESTException", CATALOG_UNAVAILABLE),
    ("iceberg.exceptions.ServiceUnavailableException", CATALOG_UNAVAILABLE),
)

_AT_PLANNING = frozenset({"AnalysisException", "ParseException", "UnsupportedOperationException"})
"""Classes of the errors that Spark raises before it runs anything."""


@contextlib.contextmanager
def named_errors(deadline: Deadline) -> Iterator[None]:
    """Turns failures inside into named errors: the deadline's if it has passed, else Spark's."""
    try:
        yield
    except SeamlineError:
        raise
    except ImportError:
        raise
    except Exception as error:
        deadline.check()
        raise named_error(error) from error


def named_error(error: Exception) -> SeamlineError:
    """Returns our error for one of Spark's, whatever its class."""
    text = str(error)
    condition = _condition(error)
    code = _CONDITIONS.get(condition.split(".")[0])
    ours = _RAISED_BY_US.search(text)
    if code is None and ours is not None and ours[1] in ERRORS:
        message = (ours[2] or "").split(" SQLSTATE")[0].strip()
        return SeamlineError(ERRORS[ours[1]], message or _MESSAGES.get(ours[1], ours[1]))
    if code is None:
        code = next((c for part, c in _BY_TEXT if part in text), None)
    if condition == "RETRIES_EXCEEDED":
        return SeamlineError(SPARK_UNAVAILABLE, "the Spark server does not answer")
    if code is DIVISION_BY_ZERO:
        return SeamlineError(code, _MESSAGES[code.name])
    if code is STATEMENT_TOO_LARGE:
        return SeamlineError(code, "the statement is nested too deeply for Spark")
    if code is NOT_SUPPORTED:
        return SeamlineError(
            code,
            "Spark cannot compute a subquery that reads columns of the query around it in this way",
            hint="Write it as a join, or run it on DuckDB (engine = 'duckdb').",
        )
    message = re.sub(r"\s+", " ", sentence(text))
    return SeamlineError(code or _unnamed(error, condition), message[:500])


def _unnamed(error: Exception, condition: str) -> ErrorCode:
    """Classifies an unknown error: Spark refused the statement, or failed to run it."""
    names = {class_.__name__ for class_ in type(error).__mro__}
    is_refused = _AT_PLANNING & names and not condition.startswith("TABLE_OR_VIEW")
    return NOT_SUPPORTED if is_refused else SPARK_FAILED


def _condition(error: Exception) -> str:
    getter = getattr(error, "getCondition", None)
    return str(getter() or "") if getter is not None else ""
