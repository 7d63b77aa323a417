"""A statement while it is run: what it says, what its principal's statements are run with, results.

Handlers get a `Context` and return rows, or write them to the result themselves.
"""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

import pyarrow as pa
from sqlglot import exp

from seamline.connectors.protocols.deadlines import Compute, at_once
from seamline.connectors.spark.engine import SparkEngine
from seamline.gateway.access.rights import Sight, TableRights
from seamline.gateway.catalogs import resolution
from seamline.gateway.catalogs.connections import Connections, Sources, as_owner
from seamline.gateway.catalogs.resolution import Session
from seamline.gateway.commands.rows import Rows
from seamline.gateway.config.model import Config
from seamline.gateway.query.meanings import Meaning
from seamline.gateway.query.queries import Planned, Queries, QueryRequest
from seamline.gateway.query.tokens import TokenSigner
from seamline.gateway.statements import audited, freshness
from seamline.gateway.statements.aggregates import EXACT
from seamline.gateway.statements.spool import ResultSpool, SpoolDirectory
from seamline.gateway.statements.statement import Statement, StatementRequest
from seamline.planners.plan.logical import LogicalPlan
from seamline.planners.plan.route import AUTO
from seamline.seam.seam import Seam
from seamline.sql import types
from seamline.sql.binder.scope import Output
from seamline.sql.parsing import parameters
from seamline.sql.parsing.parameters import Values
from seamline.sql.parsing.statements import KillStatement, Query

S = TypeVar("S")


@dataclasses.dataclass(frozen=True, slots=True)
class Environment:
    """What the statements of one principal are run with. Safe to share between threads.

    Attributes:
        connections: The catalogs and clusters, with the principal's rights.
        queries: Plans and runs queries.
        signer: Reads tokens, and signs those of receipts.
        spools: Where results are kept.
        kill: Ends another statement.
        compute: Runs pure computations.
        spark: The gateway's Spark, if it has one.
    """

    connections: Connections
    queries: Queries
    signer: TokenSigner
    spools: SpoolDirectory
    kill: Callable[[KillStatement], None]
    compute: Compute = at_once
    spark: SparkEngine | None = None

    @property
    def config(self) -> Config:
        """The gateway's configuration."""
        return self.connections.config


@dataclasses.dataclass(frozen=True, slots=True)
class Context(Generic[S]):
    """A statement while it is run.

    Attributes:
        environment: What it is run with.
        statement: Its life: the request, the deadline, the result.
        parsed: What it says; for EXECUTE, what the prepared statement says.
        session: The catalog, schema and time zone that it is run in.
        values: The values of its parameters.
        meaning: What its text means, if it is a query without parameters.
    """

    environment: Environment
    statement: Statement
    parsed: S
    session: Session
    values: Values = ()
    meaning: Meaning | None = None

    @property
    def connections(self) -> Connections:
        """The catalogs and clusters, with the principal's rights."""
        return self.environment.connections

    @property
    def request(self) -> StatementRequest:
        """What the client asks for."""
        return self.statement.request

    def query(self, query: Query, tree: exp.Expr | None = None) -> QueryRequest:
        """Returns the request to run a query of the statement.

        Args:
            query: The query.
            tree: Its tree without parameters; by default, with their values in place of them.

        Raises:
            SeamlineError: INVALID_PARAMETERS, INVALID_TOKEN, …
        """
        request, signer = self.request, self.environment.signer
        principal = self.statement.principal
        token = query.token or request.token
        seams: Sequence[Seam] = signer.read(token, principal) if token is not None else ()
        return QueryRequest(
            tree=parameters.bind(query, self.values) if tree is None else tree,
            session=self.session,
            engine=request.engine or AUTO,
            token=seams,
            after=signer.after(request.after, principal),
            freshness=freshness.parse(request.freshness),
            now=datetime.datetime.fromtimestamp(self.statement.submitted_at, datetime.UTC),
            row_limit=request.row_limit,
            read_token=lambda text: signer.read(text, principal),
            aggregates=request.aggregates or EXACT,
        )

    def plan(self, request: QueryRequest) -> Planned:
        """Plans a query.

        Raises:
            SeamlineError: named after the cause.
        """
        return self.environment.queries.plan(request, self.statement.deadline)

    def note(self, planned: Planned) -> None:
        """Records what the statement reads, for the audit log, and how much of it may be seen."""
        logical = planned.plan.logical
        self.statement.tables = audited.tables_of(logical.scans)
        rights = self.rights(logical)
        self.statement.sight = Sight.of(each for of_scan in rights.values() for each in of_scan)

    def rights(self, plan: LogicalPlan) -> dict[str, tuple[TableRights, ...]]:
        """Returns the rights to the table of each scan: the caller's, and those it is read with.

        What the gateway generates itself has only what may be seen.
        """
        owners = {scan.scan_id: scan.reference.owner for scan in plan.query.scans}
        rights: dict[str, tuple[TableRights, ...]] = {}
        for scan in plan.scans:
            readers: tuple[Sources, ...] = ()
            if scan.facts.kind != "system":
                readers = (self.connections, as_owner(self.connections, owners[scan.scan_id]))
            source, *path = scan.seam.table
            name = resolution.named(source, tuple(path), "", self.environment.config)
            rights[scan.scan_id] = tuple(reader.rights.table(name) for reader in readers)
        return rights

    def open_result(self, output: Sequence[Output]) -> ResultSpool:
        """Opens the result for rows with these columns."""
        schema = pa.schema([types.result_field(column.name, column.type) for column in output])
        statement = self.statement
        spool = self.environment.spools.open(schema, statement.statement_id, statement.principal)
        statement.opened(tuple(output), spool)
        return spool

    def write(self, rows: Rows) -> None:
        """Writes the rows of a statement that is not a query as its result."""
        spool = self.open_result(rows.output)
        columns = list(zip(*rows.rows, strict=True)) or [()] * len(rows.output)
        arrays = [
            pa.array(column, field.type)
            for column, field in zip(columns, spool.schema, strict=True)
        ]
        spool.write(pa.RecordBatch.from_arrays(arrays, schema=spool.schema))
