"""The one table of errors.

Every failure that leaves Seamline is a `SeamlineError` whose code is declared exactly once, here.
The declaration has its kind, whether a retry may help, and a hint that says what to do. HTTP
status and DB-API class are derived from it, never chosen where it is raised. Which of Trino's
errors it is in Trino's protocol, if any, is in `gateway/trino/errors.py`.
"""

from __future__ import annotations

import dataclasses
import enum
import pathlib
from collections.abc import Mapping
from typing import Any, Self

from seamline.errors.sentences import sentence as sentence

RETRY_AFTER = "retry_after_s"
"""The error detail that gives the number of seconds to wait before a retry."""


class ErrorKind(enum.Enum):
    """Who can fix the error. The values are the four error types of Trino's client protocol."""

    USER = "USER_ERROR"
    EXTERNAL = "EXTERNAL"
    INSUFFICIENT_RESOURCES = "INSUFFICIENT_RESOURCES"
    INTERNAL = "INTERNAL_ERROR"


@dataclasses.dataclass(frozen=True, slots=True)
class ErrorCode:
    """One row of the error table.

    Attributes:
        name: Upper-case name, stable across versions; what programs match on.
        number: Stable, unique number; Trino has none like it.
        kind: Who can fix it.
        hint: What to do about it, for people; used unless the raising code gives a better one.
        retriable: Whether the same request may succeed later without any change.
        http_status: Status of an HTTP response that carries this error.
    """

    name: str
    number: int
    kind: ErrorKind
    hint: str
    retriable: bool
    http_status: int


@dataclasses.dataclass(frozen=True, slots=True)
class Location:
    """The position of an error in the statement. Both numbers count from 1."""

    line: int
    column: int

    def within(self, part: str, begin: int = 0) -> Location | None:
        """Returns the position in a part of the statement; None if it is elsewhere.

        Args:
            part: The part.
            begin: Where it begins in the statement's first line.
        """
        here = Location(self.line, self.column - (begin if self.line == 1 else 0))
        lines = part.split("\n") if part else []
        is_in = here.line <= len(lines) and 0 < here.column <= len(lines[here.line - 1]) + 1
        return here if is_in else None


class SeamlineError(Exception):
    """A failure with a name.

    Attributes:
        code: The row of the error table.
        message: The cause, specific to this failure.
        hint: The remedy.
        location: Its position in the statement, if it has one.
        query_id: The statement it belongs to, once known.
        details: Values a program may want (partition, offset, table); JSON-ready.
        subject: Name of the table or topic that it is about, where it is raised by name; not sent.
    """

    def __init__(
        self,
        code: ErrorCode,
        message: str,
        *,
        hint: str | None = None,
        location: Location | None = None,
        query_id: str | None = None,
        details: Mapping[str, Any] | None = None,
        subject: str = "",
    ) -> None:
        self.message = sentence(message)
        super().__init__(self.message)
        self.code = code
        self.hint = code.hint if hint is None else hint
        self.location = location
        self.query_id = query_id
        self.details: dict[str, Any] = dict(details or {})
        self.subject = subject

    @property
    def summary(self) -> str:
        """`NAME: message (line:column)`."""
        where = f" (line {self.location.line}:{self.location.column})" if self.location else ""
        return f"{self.code.name}: {self.message}{where}"

    @property
    def retry_after_s(self) -> float | None:
        """The number of seconds to wait before a retry, if known."""
        seconds = self.details.get(RETRY_AFTER)
        return float(seconds) if isinstance(seconds, int | float) else None

    def __str__(self) -> str:
        """The summary, then the hint on a line of its own."""
        return f"{self.summary}\nhint: {self.hint}" if self.hint else self.summary

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles the whole error: a failure in a Spark worker arrives with its name and class."""
        return _rebuild, (type(self), self.to_json())

    def to_json(self) -> dict[str, Any]:
        """The form every wire format carries: code, kind, message, hint, location, query_id."""
        body: dict[str, Any] = {
            "code": self.code.name,
            "kind": self.code.kind.value,
            "message": self.message,
            "hint": self.hint,
            "retriable": self.code.retriable,
        }
        if self.location:
            body["location"] = {"line": self.location.line, "column": self.location.column}
        if self.query_id:
            body["query_id"] = self.query_id
        if self.details:
            body["details"] = self.details
        return body

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Self:
        """The inverse of `to_json`. A code this version does not know becomes INTERNAL_ERROR."""
        location = body.get("location")
        code = ERRORS.get(str(body.get("code")), INTERNAL_ERROR)
        message = str(body.get("message", ""))
        if code.name != body.get("code"):
            message = f"{body.get('code')}: {message}"
        return cls(
            code,
            message,
            hint=body.get("hint"),
            location=Location(location["line"], location["column"]) if location else None,
            query_id=body.get("query_id"),
            details=body.get("details"),
        )


def text_of_file(
    file: str | pathlib.Path, code: ErrorCode, failure: str, *, hint: str | None = None
) -> str:
    """Returns the text of a file in UTF-8.

    Args:
        file: The file.
        code: The error of a file that cannot be read.
        failure: Its message, which the cause follows.
        hint: Its remedy; by default, the code's.

    Raises:
        SeamlineError: the code, if there is no such file, or it is not text.
    """
    try:
        return pathlib.Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        cause = error.strerror if isinstance(error, OSError) else "it is not text"
        raise SeamlineError(code, f"{failure}: {cause}", hint=hint) from error


def _rebuild(class_: type[SeamlineError], body: Mapping[str, Any]) -> SeamlineError:
    return class_.from_json(body)


_STATUS = {
    ErrorKind.USER: 400,
    ErrorKind.EXTERNAL: 502,
    ErrorKind.INSUFFICIENT_RESOURCES: 503,
    ErrorKind.INTERNAL: 500,
}
_BASE = {
    ErrorKind.USER: 10_000,
    ErrorKind.EXTERNAL: 20_000,
    ErrorKind.INSUFFICIENT_RESOURCES: 30_000,
    ErrorKind.INTERNAL: 40_000,
}

ERRORS: dict[str, ErrorCode] = {}
"""Every error code by name."""


def _declare(
    name: str,
    number: int,
    kind: ErrorKind,
    hint: str,
    *,
    retriable: bool = False,
    status: int | None = None,
) -> ErrorCode:
    code = ErrorCode(name, _BASE[kind] + number, kind, hint, retriable, status or _STATUS[kind])
    ERRORS[name] = code
    return code


_USER = ErrorKind.USER
_EXTERNAL = ErrorKind.EXTERNAL
_RESOURCES = ErrorKind.INSUFFICIENT_RESOURCES

# --- The statement is wrong ------------------------------------------------------------------

SYNTAX_ERROR = _declare(
    "SYNTAX_ERROR", 1, _USER, "Check the statement near the marked place; the dialect is Trino's."
)
MULTIPLE_STATEMENTS = _declare(
    "MULTIPLE_STATEMENTS", 2, _USER, "Send one statement per request, without a second after ';'."
)
STATEMENT_NOT_ALLOWED = _declare(
    "STATEMENT_NOT_ALLOWED",
    3,
    _USER,
    "docs/sql.md lists the statements that are accepted.",
)
STATEMENT_TOO_LARGE = _declare(
    "STATEMENT_TOO_LARGE",
    4,
    _USER,
    "Shorten the statement; load long value lists into a table and join it.",
)
CATALOG_NOT_FOUND = _declare(
    "CATALOG_NOT_FOUND", 5, _USER, "SHOW CATALOGS lists the catalogs.", status=404
)
SCHEMA_NOT_FOUND = _declare(
    "SCHEMA_NOT_FOUND", 6, _USER, "SHOW SCHEMAS lists the schemas of a catalog.", status=404
)
TABLE_NOT_FOUND = _declare(
    "TABLE_NOT_FOUND", 7, _USER, "SHOW TABLES lists the tables you may read.", status=404
)
COLUMN_NOT_FOUND = _declare(
    "COLUMN_NOT_FOUND", 8, _USER, "DESCRIBE the table to see its columns, hidden ones included."
)
COLUMN_AMBIGUOUS = _declare(
    "COLUMN_AMBIGUOUS", 9, _USER, "Write the table's name or alias in front of the column."
)
TYPE_MISMATCH = _declare(
    "TYPE_MISMATCH", 10, _USER, "Convert one side with CAST(… AS type); nothing is guessed."
)
MERGE_TARGET_ROW_MULTIPLE_MATCHES = _declare(
    "MERGE_TARGET_ROW_MULTIPLE_MATCHES",
    22,
    _USER,
    "Let each row of the table match one source row at most; group the source by what ON compares.",
)
FUNCTION_NOT_FOUND = _declare(
    "FUNCTION_NOT_FOUND", 11, _USER, "SHOW FUNCTIONS lists the verified functions."
)
NOT_SUPPORTED = _declare(
    "NOT_SUPPORTED",
    12,
    _USER,
    "Rewrite it with what is verified to mean the same on both engines (docs/sql.md).",
)
GROUPING_ERROR = _declare(
    "GROUPING_ERROR", 13, _USER, "Add the column to GROUP BY or wrap it in an aggregate."
)
INVALID_PARAMETERS = _declare(
    "INVALID_PARAMETERS", 14, _USER, "Give exactly one value for each placeholder."
)
INVALID_LITERAL = _declare("INVALID_LITERAL", 15, _USER, "Correct the literal.")
DIVISION_BY_ZERO = _declare(
    "DIVISION_BY_ZERO", 16, _USER, "Guard the divisor: a / NULLIF(b, 0) gives NULL instead."
)
INVALID_CAST = _declare(
    "INVALID_CAST", 17, _USER, "TRY_CAST gives NULL where a value cannot be converted."
)
NUMERIC_OVERFLOW = _declare("NUMERIC_OVERFLOW", 18, _USER, "CAST to a wider type before computing.")
SUBQUERY_MULTIPLE_ROWS = _declare(
    "SUBQUERY_MULTIPLE_ROWS",
    19,
    _USER,
    "A scalar subquery must give one row: aggregate, or add LIMIT 1.",
)
INVALID_ARGUMENT = _declare("INVALID_ARGUMENT", 20, _USER, "Correct the argument and try again.")
EVALUATION_FAILED = _declare(
    "EVALUATION_FAILED", 21, _USER, "A row holds a value that the expression cannot take."
)

# --- Tables and their definition --------------------------------------------------------------

TABLE_EXISTS = _declare(
    "TABLE_EXISTS", 40, _USER, "Choose another name, or DROP TABLE first.", status=409
)
TOPIC_NOT_FOUND = _declare(
    "TOPIC_NOT_FOUND", 41, _USER, "Create the topic first, or correct its name.", status=404
)
INVALID_TABLE_DEFINITION = _declare(
    "INVALID_TABLE_DEFINITION", 42, _USER, "Correct the definition; docs/tables.md lists its parts."
)
INFERENCE_FAILED = _declare(
    "INFERENCE_FAILED", 43, _USER, "Produce sample records, or state the columns with --schema."
)
NOT_A_UNIFIED_TABLE = _declare(
    "NOT_A_UNIFIED_TABLE",
    44,
    _USER,
    "Only tables with the property seamline.topic can be tiered; see `seamline table list`.",
)

INVALID_VIEW = _declare(
    "INVALID_VIEW",
    47,
    _USER,
    "Recreate it with CREATE OR REPLACE VIEW, or with the tool that created it.",
)
VIEW_IS_STALE = _declare(
    "VIEW_IS_STALE",
    48,
    _USER,
    "What the view reads has changed since it was created: use CREATE OR REPLACE VIEW.",
)
VIEW_IS_RECURSIVE = _declare(
    "VIEW_IS_RECURSIVE", 49, _USER, "Make one of the views read something else."
)

SCHEMA_EXISTS = _declare(
    "SCHEMA_EXISTS", 50, _USER, "Choose another name, or CREATE SCHEMA IF NOT EXISTS.", status=409
)
SCHEMA_NOT_EMPTY = _declare(
    "SCHEMA_NOT_EMPTY",
    51,
    _USER,
    "Drop its tables, views and inner schemas first. CASCADE drops views and plain tables with it.",
    status=409,
)

TABLE_TIERED_ELSEWHERE = _declare(
    "TABLE_TIERED_ELSEWHERE",
    55,
    _USER,
    "Another writer copies the topic into the table. Stop it first, then run `seamline table "
    "take-over` to let Seamline continue.",
    status=409,
)
OFFSETS_NOT_STORED = _declare(
    "OFFSETS_NOT_STORED",
    56,
    _USER,
    "Let the table's writer store each record's partition and offset, and name the columns "
    "with `seamline table adopt --columns`.",
)
ADOPTION_REFUSED = _declare(
    "ADOPTION_REFUSED",
    57,
    _USER,
    "Correct what the message names; docs/adopting.md says what each writer needs.",
    status=409,
)

# --- Requests ----------------------------------------------------------------------------------

INVALID_REQUEST = _declare(
    "INVALID_REQUEST", 60, _USER, "Correct the request body; docs/http.md lists its fields."
)
UNAUTHENTICATED = _declare(
    "UNAUTHENTICATED",
    61,
    _USER,
    "Authenticate as this gateway requires: with an access token, a user and password, or a "
    "certificate.",
    status=401,
)
LOGIN_KEYS_UNAVAILABLE = _declare(
    "LOGIN_KEYS_UNAVAILABLE",
    120,
    _EXTERNAL,
    "Wait until the identity provider answers at auth.jwt.jwks; try again in a minute.",
    retriable=True,
    status=503,
)
TOO_MANY_LOGINS = _declare(
    "TOO_MANY_LOGINS",
    90,
    _USER,
    "Wait as long as `Retry-After` says, then log in with the right password.",
    status=429,
)
PERMISSION_DENIED = _declare(
    "PERMISSION_DENIED", 62, _USER, "Ask the gateway's owner for the privilege.", status=403
)
STATEMENT_NOT_FOUND = _declare(
    "STATEMENT_NOT_FOUND",
    63,
    _USER,
    "Its result has been released, or its id is wrong; submit it again.",
    status=404,
)
STATEMENT_LOST = _declare(
    "STATEMENT_LOST",
    121,
    _EXTERNAL,
    "The gateway has been restarted, or another one was asked; submit the statement again. One "
    "that writes may have written: look first.",
    retriable=True,
    status=410,
)
CANCELED = _declare("CANCELED", 64, _USER, "The statement was canceled on request.", status=409)
DEADLINE_EXCEEDED = _declare(
    "DEADLINE_EXCEEDED",
    65,
    _USER,
    "Give the statement more time (`timeout`), or make it read less.",
    status=408,
)
NOT_FOUND = _declare("NOT_FOUND", 66, _USER, "The route does not exist.", status=404)
METHOD_NOT_ALLOWED = _declare(
    "METHOD_NOT_ALLOWED", 67, _USER, "The route does not take this method.", status=405
)

CATALOG_READ_ONLY = _declare(
    "CATALOG_READ_ONLY",
    68,
    _USER,
    "Produce to the table's topic, or write to the table through its own catalog.",
    status=403,
)
VIEW_NOT_FOUND = _declare(
    "VIEW_NOT_FOUND", 69, _USER, "List the namespace's views to see what there is.", status=404
)
PLAN_NOT_FOUND = _declare(
    "PLAN_NOT_FOUND",
    70,
    _USER,
    "The planned scan is unknown here or has been released; plan it again.",
    status=404,
)

INVALID_SESSION_PROPERTY = _declare(
    "INVALID_SESSION_PROPERTY", 71, _USER, "SHOW SESSION lists the properties and their values."
)
PREPARED_STATEMENT_NOT_FOUND = _declare(
    "PREPARED_STATEMENT_NOT_FOUND",
    72,
    _USER,
    "PREPARE it on the same connection first.",
    status=404,
)

# --- Tokens -------------------------------------------------------------------------------------

INVALID_TOKEN = _declare(
    "INVALID_TOKEN", 80, _USER, "Pass a token exactly as a receipt of this gateway gave it."
)
TOKEN_EXPIRED = _declare(
    "TOKEN_EXPIRED",
    81,
    _USER,
    "The rows behind the token are no longer kept; run the statement without it.",
    status=410,
)
HISTORY_CHANGED = _declare(
    "HISTORY_CHANGED",
    82,
    _USER,
    "The table was rolled back or replaced since the token was given; start over without it.",
    status=409,
)
WRITE_NOT_VISIBLE = _declare(
    "WRITE_NOT_VISIBLE",
    83,
    _EXTERNAL,
    "The write is acknowledged but not readable yet: wait for the open transaction, or raise the "
    "deadline.",
    retriable=True,
    status=504,
)

# --- The seam -----------------------------------------------------------------------------------

TOPIC_RECREATED = _declare(
    "TOPIC_RECREATED",
    1,
    _EXTERNAL,
    "The topic was deleted and created again, so the table's boundary belongs to another log. "
    "`t$cold` and FOR VERSION AS OF still read what was tiered; `seamline table resume "
    "--accept-loss` goes on with the new topic, without what the old one had not tiered.",
)
LOG_TRIMMED = _declare(
    "LOG_TRIMMED",
    2,
    _EXTERNAL,
    "Records that were never tiered have left the log. `t$cold`, time travel and conditions on "
    "`_kafka_partition` and `_kafka_offset` read what is there; `seamline table resume "
    "--accept-loss` goes on without the rest. Keep retention longer than tiering needs.",
)
LOG_TRUNCATED = _declare(
    "LOG_TRUNCATED",
    3,
    _EXTERNAL,
    "The log ends before the table's boundary: it lost records that the table holds. Check for an "
    "unclean leader election or a restored broker. If they do not come back, create the topic "
    "again, and let the table go on with it: `seamline table resume`.",
)
SNAPSHOT_GONE = _declare(
    "SNAPSHOT_GONE",
    5,
    _EXTERNAL,
    "The snapshot has expired; read a newer one, or keep it with a tag.",
    status=410,
)
TIERING_GAP = _declare(
    "TIERING_GAP",
    6,
    _EXTERNAL,
    "A batch would start above the boundary and leave a hole; nothing was written. Run the "
    "tiering again from the table's boundary.",
)
BOUNDARY_MISSING = _declare(
    "BOUNDARY_MISSING",
    8,
    _EXTERNAL,
    "No snapshot that carries the boundary is left in the table's history. Expire snapshots with "
    "`seamline table maintain`, which keeps it.",
)
BOUNDARY_INVALID = _declare(
    "BOUNDARY_INVALID", 9, _EXTERNAL, "The snapshot's boundary cannot be read; see the message."
)
UPSERT_ORDER_UNKNOWN = _declare(
    "UPSERT_ORDER_UNKNOWN",
    13,
    _EXTERNAL,
    "Records of one key may be in several partitions, so the newest one is unknown. Keep "
    "every key in one partition, and set the table's property key_partitions to their number.",
)
BAD_RECORD = _declare(
    "BAD_RECORD",
    10,
    _EXTERNAL,
    'SELECT * FROM "t$errors" shows every bad record of table t. Correct the producer, or let '
    "reads and tiering pass such records: `seamline table alter --on-error null|skip`.",
)
SCHEMA_INCOMPATIBLE = _declare(
    "SCHEMA_INCOMPATIBLE",
    16,
    _EXTERNAL,
    "No column can hold both the table's rows and the values of a schema of the "
    "topic. Correct the schema, or let the policy decide: ALTER TABLE … SET PROPERTIES "
    "evolution = 'manual'.",
    status=409,
)
SCHEMA_NOT_EVOLVED = _declare(
    "SCHEMA_NOT_EVOLVED",
    17,
    _EXTERNAL,
    "The topic has records of a schema that the table's columns cannot hold yet. Tiering changes "
    "them before its next batch; `seamline tier` runs it.",
    retriable=True,
    status=503,
)
SECOND_WRITER = _declare(
    "SECOND_WRITER",
    14,
    _EXTERNAL,
    "Another writer writes records of the topic into a table that Seamline tiers. Stop one of the "
    "two; `seamline table audit` names the duplicates.",
    status=409,
)
BOUNDARY_NOT_TRUSTED = _declare(
    "BOUNDARY_NOT_TRUSTED",
    15,
    _EXTERNAL,
    "The writer does not state an exact position in the log. Name columns with partition and "
    "offset, or accept it with the property boundary_trust = 'hint'.",
    status=409,
)
COMMIT_CONFLICT = _declare(
    "COMMIT_CONFLICT",
    11,
    _EXTERNAL,
    "Another commit won; the loser wrote nothing. Run it again.",
    retriable=True,
    status=409,
)
READ_CONFLICT = _declare(
    "READ_CONFLICT",
    12,
    _EXTERNAL,
    "The table changed faster than it could be read; try again.",
    retriable=True,
    status=503,
)

# --- The outside world ---------------------------------------------------------------------------

KAFKA_UNAVAILABLE = _declare(
    "KAFKA_UNAVAILABLE",
    30,
    _EXTERNAL,
    "Check that the brokers run and that bootstrap_servers in the configuration is right.",
    retriable=True,
    status=503,
)
SCHEMA_REGISTRY_UNAVAILABLE = _declare(
    "SCHEMA_REGISTRY_UNAVAILABLE",
    60,
    _EXTERNAL,
    "Check that the schema registry runs, and schema_registry of the cluster in the configuration.",
    retriable=True,
    status=503,
)
CATALOG_UNAVAILABLE = _declare(
    "CATALOG_UNAVAILABLE",
    31,
    _EXTERNAL,
    "Check that the Iceberg catalog runs and that its settings are right.",
    retriable=True,
    status=503,
)
CATALOG_ACCESS_DENIED = _declare(
    "CATALOG_ACCESS_DENIED", 109, _EXTERNAL, "Check the catalog's credential.", status=502
)
STORAGE_UNAVAILABLE = _declare(
    "STORAGE_UNAVAILABLE",
    32,
    _EXTERNAL,
    "Check the warehouse's storage and the gateway's rights on it.",
    retriable=True,
    status=503,
)
COLD_FILE_MISSING = _declare(
    "COLD_FILE_MISSING",
    33,
    _EXTERNAL,
    "A file that the snapshot names is missing: it was removed outside Iceberg. Restore it, or "
    "roll the table back to a snapshot whose files are whole.",
)
COLD_FILE_INVALID = _declare(
    "COLD_FILE_INVALID",
    34,
    _EXTERNAL,
    "A file of the snapshot is not what it claims to be; restore it from a copy.",
)
LOCATION_NOT_ALLOWED = _declare(
    "LOCATION_NOT_ALLOWED",
    45,
    _EXTERNAL,
    "Tables belong under their catalog's warehouse or its configured locations; their files belong "
    "under the table or the configured data_locations.",
)
PROPERTY_NOT_ALLOWED = _declare(
    "PROPERTY_NOT_ALLOWED",
    46,
    _EXTERNAL,
    "A table's properties may choose neither code nor a place outside the table; remove it with "
    "ALTER TABLE … UNSET TBLPROPERTIES.",
)
SPARK_UNAVAILABLE = _declare(
    "SPARK_UNAVAILABLE",
    35,
    _EXTERNAL,
    "Check spark.remote, or that Java 17 or 21 is installed for the local one.",
    retriable=True,
    status=503,
)
SPARK_FAILED = _declare(
    "SPARK_FAILED", 36, _EXTERNAL, "Spark could not finish the statement; see its log for details."
)
GATEWAY_UNAVAILABLE = _declare(
    "GATEWAY_UNAVAILABLE",
    37,
    _EXTERNAL,
    "Check the gateway's address and that `seamline serve` runs.",
    retriable=True,
    status=503,
)

# --- Set-up ---------------------------------------------------------------------------------------

INVALID_CONFIG = _declare(
    "INVALID_CONFIG", 100, _USER, "`seamline config show` prints each value and where it came from."
)
MISSING_EXTRA = _declare("MISSING_EXTRA", 101, _USER, "Install the named extra with pip.")
JAVA_NOT_FOUND = _declare(
    "JAVA_NOT_FOUND", 102, _USER, "Install Java 17 or 21, or set JAVA_HOME to one."
)
JAVA_UNSUPPORTED = _declare(
    "JAVA_UNSUPPORTED", 103, _USER, "Install Java 17 or 21, or set JAVA_HOME to one."
)
PORT_TAKEN = _declare(
    "PORT_TAKEN", 104, _USER, "Stop the program that listens there, or choose another port."
)
JARS_UNAVAILABLE = _declare(
    "JARS_UNAVAILABLE",
    105,
    _EXTERNAL,
    "The first start downloads the jars: check the network and that Maven Central is reachable.",
    retriable=True,
)
LOCAL_STACK_FAILED = _declare(
    "LOCAL_STACK_FAILED", 106, _EXTERNAL, "The log named in the message says why."
)
LOCAL_STACK_DOWN = _declare("LOCAL_STACK_DOWN", 107, _USER, "Start it with `seamline local up`.")
STATE_DIRECTORY_TAKEN = _declare(
    "STATE_DIRECTORY_TAKEN",
    108,
    _USER,
    "Stop the gateway that uses it, or give this one another: --set state_directory=….",
)
JARS_CHANGED = _declare(
    "JARS_CHANGED",
    110,
    _EXTERNAL,
    "The jars were altered in transit: check the proxy, or the mirror that "
    "SEAMLINE_IVY_SETTINGS names.",
)
PACKAGE_CONFLICT = _declare(
    "PACKAGE_CONFLICT", 111, _USER, "Uninstall the named package, or use another environment."
)

# --- Limits ---------------------------------------------------------------------------------------

MEMORY_LIMIT = _declare(
    "MEMORY_LIMIT", 1, _RESOURCES, "Read less, raise limits.memory_bytes, or run it on Spark."
)
TAIL_TOO_LARGE = _declare(
    "TAIL_TOO_LARGE",
    2,
    _RESOURCES,
    "Tier more often so that the tail stays short, or run it on Spark (engine = 'spark').",
)
RESULT_TOO_LARGE = _declare(
    "RESULT_TOO_LARGE", 3, _RESOURCES, "Select fewer rows or columns, or raise limits.result_bytes."
)
TOO_MANY_STATEMENTS = _declare(
    "TOO_MANY_STATEMENTS",
    4,
    _RESOURCES,
    "Try again after `Retry-After`; the message names the limit, which the gateway's owner sets.",
    retriable=True,
    status=429,
)
SCAN_TOO_LARGE = _declare(
    "SCAN_TOO_LARGE",
    8,
    _RESOURCES,
    "Let the statement read fewer files, with conditions on the columns that partition or sort "
    "the table. The gateway's owner sets limits.scan_bytes_max.",
    status=422,
)
DISK_FULL = _declare(
    "DISK_FULL",
    5,
    _RESOURCES,
    "Free disk space where the message says, then try again.",
    status=507,
)
REQUEST_TOO_LARGE = _declare(
    "REQUEST_TOO_LARGE", 6, _RESOURCES, "Send a smaller request body.", status=413
)
SHUTTING_DOWN = _declare(
    "SHUTTING_DOWN",
    7,
    _RESOURCES,
    "Send it to another gateway, or try again once this one has restarted.",
    retriable=True,
    status=503,
)
STATEMENT_KILLED = _declare(
    "STATEMENT_KILLED",
    20,
    _RESOURCES,
    "Run it again. If it is killed again, it needs more memory than there is: read less, or run "
    "it on Spark.",
    retriable=True,
    status=503,
)

# --- Ours -----------------------------------------------------------------------------------------

INTERNAL_ERROR = _declare(
    "INTERNAL_ERROR",
    1,
    ErrorKind.INTERNAL,
    "This is a fault in Seamline; see the gateway's log for details.",
)
