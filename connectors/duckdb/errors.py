"""Maps DuckDB's failures to our named errors."""

from __future__ import annotations

import pathlib
import re

import duckdb

from seamline.connectors.files import disk_full
from seamline.errors import (
    COLD_FILE_INVALID,
    COLD_FILE_MISSING,
    DISK_FULL,
    ERRORS,
    EVALUATION_FAILED,
    INTERNAL_ERROR,
    INVALID_ARGUMENT,
    INVALID_CAST,
    MEMORY_LIMIT,
    NOT_SUPPORTED,
    NUMERIC_OVERFLOW,
    STATEMENT_TOO_LARGE,
    SUBQUERY_MULTIPLE_ROWS,
    ErrorCode,
    SeamlineError,
)

_OURS = re.compile(r"\b([A-Z]+(?:_[A-Z]+)+)(?:: (.*))?")


def named_error(error: Exception) -> SeamlineError:
    """Returns our error for one of DuckDB's."""
    first_line = str(error).strip().split("\n", maxsplit=1)[0]
    message = _OF_DUCKDB.sub("", _IN_A_KERNEL.sub("", _OF_DUCKDB.sub("", first_line)))
    match = _OURS.match(message)
    if match and match[1] in ERRORS:
        return SeamlineError(ERRORS[match[1]], match[2] or _DEFAULT_MESSAGES.get(match[1], message))
    if message.startswith("Pattern has"):
        return SeamlineError(INVALID_ARGUMENT, message)
    if _OF_A_PATTERN.match(message):
        return SeamlineError(INVALID_ARGUMENT, f"the regular expression is not valid: {message}")
    code = _code_of(error, first_line)
    if code is STATEMENT_TOO_LARGE:
        message = "the statement is nested too deeply for DuckDB"
    return SeamlineError(code, message)


_OF_A_PATTERN = re.compile(
    r"(Pattern failed to parse|missing (terminating )?[\])]|unexpected \)|trailing \\|"
    r"bad repetition operator|"
    r"no argument for repetition operator|pattern too large|"
    r"invalid (repetition size|character class|named capture group|perl operator|escape sequence))"
)
"""What RE2 says about an invalid regular expression, with the part that it refers to."""

_OF_DUCKDB = re.compile(r"^(\w+ )+(Error|Exception): ")
_IN_A_KERNEL = re.compile("^Python exception occurred while executing the UDF: \\w+: ")
_DEFAULT_MESSAGES = {"DIVISION_BY_ZERO": "a divisor is zero"}

_BY_TEXT: tuple[tuple[str, ErrorCode], ...] = (
    ("No files found", COLD_FILE_MISSING),
    ("No such file", COLD_FILE_MISSING),
    ("Cannot open file", COLD_FILE_MISSING),
    # every file that is read is an allowed path, and DuckDB refuses a missing one like this
    ("disabled by configuration", COLD_FILE_MISSING),
    ("value is out of range", NUMERIC_OVERFLOW),
    ("Could not cast value", NUMERIC_OVERFLOW),  # of a number; a string fails to convert
    ("Map keys ", INVALID_ARGUMENT),  # duplicate, or null
    ("Max expression depth limit", STATEMENT_TOO_LARGE),
    ("More than one row returned by a subquery", SUBQUERY_MULTIPLE_ROWS),
    ("No magic bytes", COLD_FILE_INVALID),
    ("Failed to read", COLD_FILE_INVALID),
    ("Parquet", COLD_FILE_INVALID),
    ("decompress", COLD_FILE_INVALID),
    ("No space left", DISK_FULL),
    ("MemoryError", MEMORY_LIMIT),  # in a kernel
    ("bad_alloc", MEMORY_LIMIT),
)

_AT_PLANNING = (
    duckdb.BinderException,
    duckdb.CatalogException,
    duckdb.NotImplementedException,
    duckdb.ParserException,
    duckdb.SyntaxException,
)
"""Classes of the errors that DuckDB raises before it runs anything."""


_SPILLED_ALL = re.compile(r"failed to offload data block .*/([\d.]+) (bytes|[KMGTP]iB) used\)")
_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB")
_SHOWN = 0.99
"""DuckDB shows sizes with one digit after the point."""


def spill_error(error: SeamlineError, directory: str, bytes_max: int) -> SeamlineError:
    """Returns the error for what a statement failed with, also if it could not spill any more.

    DuckDB bounds what it spills by the space that was free on the disk, too.
    """
    match = _SPILLED_ALL.match(error.message)
    if match is None:
        return error
    bound = float(match[1]) * 1024 ** _UNITS.index(match[2])
    if bound < _SHOWN * bytes_max:
        return disk_full(pathlib.Path(directory), ", to which the statement spills rows")
    return SeamlineError(
        MEMORY_LIMIT,
        f"the statement has spilled {bytes_max:,} bytes, all of limits.spill_bytes",
        hint="Read less, raise limits.spill_bytes, or run it on Spark.",
    )


def _code_of(error: Exception, line: str) -> ErrorCode:
    for part, code in _BY_TEXT:
        if part.lower() in line.lower():
            return code
    match error:
        case duckdb.OutOfMemoryException():
            return MEMORY_LIMIT
        case _ if isinstance(error, _AT_PLANNING):
            return NOT_SUPPORTED
        case duckdb.ConversionException():
            return INVALID_CAST
        case duckdb.OutOfRangeException():
            return NUMERIC_OVERFLOW
        case duckdb.IOException():
            return COLD_FILE_INVALID
        case duckdb.InvalidInputException():
            return EVALUATION_FAILED
    return INTERNAL_ERROR
