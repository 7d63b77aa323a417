"""Models of the answers of the gateway's REST API; the tests check every answer against them."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from seamline.errors import ERRORS, ErrorKind
from seamline.gateway.http.operations import Shape
from seamline.gateway.statements.statement import State


class Place(Shape):
    """A place in a statement; line and column count from 1."""

    line: int
    column: int


class Problem(Shape):
    """A named error."""

    code: str = Field(json_schema_extra={"enum": [*sorted(ERRORS)]})
    """Its name, which programs match on."""
    kind: ErrorKind
    """Who can fix it."""
    message: str
    """The cause."""
    hint: str
    """The remedy."""
    retriable: bool
    """Whether the same request may succeed later without any change."""
    location: Place | None = None
    """The place in the statement that caused it."""
    query_id: str | None = None
    """The id of the statement that it belongs to."""
    details: dict[str, Any] = Field(default_factory=dict)
    """Values for programs, such as `retry_after_s` and, if a limit was hit, `limit`."""


class Failure(Shape):
    """The answer to a failed request."""

    error: Problem


class Column(Shape):
    """A column of a result."""

    name: str
    type: str
    """Its SQL type."""


class Chunks(Shape):
    """The chunks of a result that are ready."""

    count: int
    rows: list[int]
    """The number of rows of each chunk."""
    complete: bool
    """Whether these are all chunks."""


class Rows(Shape):
    """Rows in the answer itself, in the requested format."""

    data: list[list[Any]] | None = None
    csv: str | None = None
    arrow: str | None = None
    """An Arrow IPC stream in base64."""


class Manifest(Shape):
    """Everything about a statement except its rows."""

    statement_id: str
    state: State
    elapsed_s: float
    """Seconds since it was submitted, or, once it has ended, that it took."""
    progress: dict[str, Any]
    """The engine, the rows and bytes of files that it is expected to read, and the rows so far."""
    is_read: bool = False
    """Whether it is known to be a query, which a client may submit again if it is lost."""
    error: Problem | None = None
    columns: list[Column] = Field(default_factory=list)
    chunks: Chunks | None = None
    row_count: int = 0
    truncated: bool = False
    """Whether rows were cut off after `row_limit`."""
    receipt: dict[str, Any] = Field(default_factory=dict)
    """What the rows reflect: each table's seam, the engine, and the rows and bytes of each tier."""
    token: str | None = None
    """Sent as `token`, returns the same rows again."""
    session: str | None = None
    """Sent as `after`, keeps later statements from falling behind this one."""
    update_type: str | None = None
    """Keywords of a statement without a result, such as `INSERT`; its one row says it is done."""
    update_count: int | None = None
    """The number of rows that it wrote."""
    write_token: str | None = None
    """Sent as `after`, makes a later statement see what this one wrote."""
    changes: dict[str, Any] = Field(default_factory=dict)
    """Changes to the client's session, which apply from now on."""
    inline: Rows | None = None


class Chunk(Shape):
    """A chunk of rows."""

    chunk: int
    data: list[list[Any]]


class Summary(Shape):
    """A summary of a statement."""

    statement_id: str
    user: str
    """Who submitted it."""
    statement: str
    """Its text, or the beginning of it."""
    is_cut: bool
    """Whether `statement` is only the beginning."""
    state: State
    submitted_at: float
    """When it was submitted, in seconds since the epoch."""
    finished_at: float | None = None
    """When it ended, in seconds since the epoch; absent before that."""
    elapsed_s: float
    """Seconds since it was submitted, or, once it has ended, that it took."""
    row_count: int
    """The number of rows of its result so far."""
    receipt: dict[str, Any]
    """What its rows reflect, in short: the tables, the engine, the rows and bytes of each tier."""
    error: Problem | None = None


class Listing(Shape):
    """A list of statements."""

    statements: list[Summary]


class Seam(Shape, extra="allow"):
    """A table at one moment: its snapshot, the offsets, and how its records are decoded."""

    table: list[str]
    token: str


class Info(Shape):
    """The product that answers, and its version."""

    product: Literal["seamline"]
    version: str


class Status(Shape):
    """The answer that all is well."""

    status: Literal["ok"]


class Away(Shape):
    """A dependency that does not answer."""

    kind: str
    """`catalog`, `cluster`, `registry`, `storage` or `login keys`."""
    name: str | None
    """Its name in the configuration; null if the gateway asks who its callers are, since this
    request needs no credentials. `/metrics` has the names."""
    since: str
    """When it was first noticed."""


class Ready(Shape):
    """The answer that the gateway takes statements."""

    status: Literal["ok"]
    away: list[Away]
    """What it depends on that does not answer. Statements that need nothing of it are answered."""
