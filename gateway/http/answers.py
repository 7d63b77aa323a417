"""What the answers of our own REST API look like; the tests check every answer against it."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from seamline.errors import ERRORS, ErrorKind
from seamline.gateway.http.operations import Shape
from seamline.gateway.query.statements import State


class Place(Shape):
    """A place in a statement; both count from 1."""

    line: int
    column: int


class Problem(Shape):
    """A failure with a name."""

    code: str = Field(json_schema_extra={"enum": [*sorted(ERRORS)]})
    """Its name, which programs match on."""
    kind: ErrorKind
    """Who can mend it."""
    message: str
    """The cause."""
    hint: str
    """The remedy."""
    retriable: bool
    """Whether the same request may succeed later, without anything being changed."""
    location: Place | None = None
    """Where in the statement it lies."""
    query_id: str | None = None
    """The statement it belongs to."""
    details: dict[str, Any] = Field(default_factory=dict)
    """Values that a program may want, as `retry_after_s` and, where a limit was hit, `limit`."""


class Failure(Shape):
    """The answer to what failed."""

    error: Problem


class Column(Shape):
    """A column of a result."""

    name: str
    type: str
    """Its type, as SQL writes it."""


class Chunks(Shape):
    """The chunks of a result that are ready."""

    count: int
    rows: list[int]
    """Rows of each."""
    complete: bool
    """Whether no more will come."""


class Rows(Shape):
    """Rows in the answer itself, in the form that was asked for."""

    data: list[list[Any]] | None = None
    csv: str | None = None
    arrow: str | None = None
    """An Arrow IPC stream in base64."""


class Manifest(Shape):
    """Everything about a statement but its rows."""

    statement_id: str
    state: State
    elapsed_s: float
    """Seconds since it was submitted, or that it took."""
    progress: dict[str, Any]
    """The engine, rows and bytes of files that it is expected to read, rows it has given so far."""
    error: Problem | None = None
    columns: list[Column] = Field(default_factory=list)
    chunks: Chunks | None = None
    row_count: int = 0
    truncated: bool = False
    """Whether rows were cut off after `row_limit`."""
    receipt: dict[str, Any] = Field(default_factory=dict)
    """What the rows reflect: the seam of each table, the engine, rows and bytes of each tier."""
    token: str | None = None
    """Asks for the same rows again."""
    session: str | None = None
    """As `after`, keeps later statements from falling behind this one."""
    update_type: str | None = None
    """Keywords of a statement that has no result, such as `INSERT`; its one row says it is done."""
    update_count: int | None = None
    """Rows that it has written."""
    write_token: str | None = None
    """As `after`, makes a statement see what this one has written."""
    changes: dict[str, Any] = Field(default_factory=dict)
    """What the client's session is from now on."""
    inline: Rows | None = None


class Chunk(Shape):
    """A chunk of rows."""

    chunk: int
    data: list[list[Any]]


class Summary(Shape):
    """A statement in short."""

    statement_id: str
    user: str
    """Who submitted it."""
    statement: str
    """Its text, or the beginning of that."""
    is_cut: bool
    """Whether it is the beginning."""
    state: State
    submitted_at: float
    """Seconds since the epoch."""
    finished_at: float | None = None
    """The same; not there before it has ended."""
    elapsed_s: float
    """Seconds since it was submitted, or that it took."""
    row_count: int
    """Rows of its result so far."""
    receipt: dict[str, Any]
    """What its rows reflect, in short: tables, engine, rows and bytes of each tier."""
    error: Problem | None = None


class Listing(Shape):
    """Statements."""

    statements: list[Summary]


class Seam(Shape, extra="allow"):
    """A table at one moment: its snapshot, the offsets, and how its records are decoded."""

    table: list[str]
    token: str


class Info(Shape):
    """What answers."""

    product: Literal["seamline"]
    version: str


class Status(Shape):
    """That all is well."""

    status: Literal["ok"]
