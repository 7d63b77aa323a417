"""The path of a statement from text to result: parse, gather, plan, run, receipt, spool.

A query's rows are written to the spool as its engine produces them. EXPLAIN's lines and the rows of
commands take the same path.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import functools
import json
from collections.abc import Iterator, Sequence

import pyarrow as pa
from sqlglot import exp

from seamline.connectors.iceberg.tables import commits
from seamline.connectors.iceberg.tables.catalog import IcebergTable
from seamline.connectors.protocols.deadlines import Compute, at_once
from seamline.connectors.spark.engine import SparkEngine
from seamline.errors import COMMIT_CONFLICT, STATEMENT_NOT_ALLOWED, SeamlineError
from seamline.gateway.access.rights import Sight, TableRights, told_as_seen
from seamline.gateway.catalogs import resolution
from seamline.gateway.catalogs.connections import Connections, Sources, as_owner
from seamline.gateway.commands import maintaining, prepared, row_changes, sessions, stats, writes
from seamline.gateway.commands.dispatch import Commands
from seamline.gateway.commands.prepared import Values
from seamline.gateway.commands.row_changes import Changed
from seamline.gateway.commands.rows import Rows, done
from seamline.gateway.config.model import Config
from seamline.gateway.query import receipt
from seamline.gateway.query.meanings import Meaning, Meanings
from seamline.gateway.query.queries import Planned, Queries, QueryRequest, Running
from seamline.gateway.query.tokens import TokenSigner, forgotten
from seamline.gateway.statements import audited, freshness, session_properties
from seamline.gateway.statements.spool import ResultSpool, SpoolDirectory
from seamline.gateway.statements.statement import Statement
from seamline.planners.explain import (
    Explained,
    explain,
    explain_io,
    explain_json,
    explain_logical,
)
from seamline.planners.plan.logical import LogicalPlan, Scan
from seamline.planners.plan.physical import PhysicalPlan
from seamline.planners.plan.route import AUTO, SPARK
from seamline.seam.seam import Seam
from seamline.seam.session import merge
from seamline.sql import parameters, parse, types
from seamline.sql import statements as sql
from seamline.sql.binder.scope import Output
from seamline.sql.places import placed_at
from seamline.sql.session_zone import UTC
from seamline.sql.statements import (
    ChangeRows,
    CreateTableAs,
    CreateView,
    Deallocate,
    DescribePrepared,
    Execute,
    Explain,
    Insert,
    MaintainTable,
    Prepare,
    Query,
    ShowStats,
)


class Answers:
    """Answers statements of every kind. Safe to share between threads.

    Args:
        config: The configuration.
        queries: Plans and runs queries.
        commands: Runs statements that are not queries.
        connections: The catalogs and clusters that statements write to.
        signer: Reads tokens, and signs those of receipts.
        spools: Where results are kept.
        meanings: Remembers what texts mean.
        compute: Runs pure computations.
        spark: The gateway's Spark, if it has one.
    """

    def __init__(
        self,
        config: Config,
        queries: Queries,
        commands: Commands,
        connections: Connections,
        signer: TokenSigner,
        spools: SpoolDirectory,
        meanings: Meanings,
        compute: Compute = at_once,
        spark: SparkEngine | None = None,
    ) -> None:
        self._compute = compute
        self._spark = spark
        self._meanings = meanings
        self._config = config
        self._queries = queries
        self._commands = commands
        self._connections = connections
        self._signer = signer
        self._spools = spools

    def run(self, statement: Statement) -> None:
        """Runs a statement to its result and receipt.

        Raises:
            SeamlineError: whatever is wrong with the statement or with what it reads.
        """
        with told_as_seen(lambda: statement.sight):
            self._run(statement)

    def _run(self, statement: Statement) -> None:
        request, rights = statement.request, self._connections.rights
        rights.require_execute()
        for name in sorted(session_properties.set_by(request)):
            rights.require_property(name)
        session = dataclasses.replace(
            resolution.session(self._config, request.catalog, request.schema, rights),
            time_zone=request.time_zone or UTC,
        )
        parsed, values, meaning = self._read(statement)
        statement.parsed = parsed
        statement.is_read = isinstance(parsed, Query)
        sessions.check_transaction(parsed, request)
        match parsed:
            case Query():
                wanted = self._request(statement, parsed, session, values)
                self._run_query(statement, dataclasses.replace(wanted, meaning=meaning))
            case Explain():
                wanted = self._request(statement, parsed.query, session, values)
                self._explain(statement, wanted, parsed)
            case Prepare():
                self._answer(statement, prepared.prepare(parsed, request))
            case Deallocate():
                self._answer(statement, prepared.deallocate(parsed, request))
            case DescribePrepared():
                self._answer(statement, self._described(statement, parsed, session))
            case CreateTableAs():
                self._create_as(statement, parsed, session, values)
            case Insert():
                self._insert(statement, parsed, session, values)
            case ChangeRows():
                self._change_rows(statement, parsed, session, values)
            case MaintainTable():
                self._answer(statement, self._maintained(statement, parsed, session, values))
            case ShowStats():
                wanted = self._request(statement, parsed.query, session, values)
                planned = self._queries.plan(wanted, statement.deadline)
                self._note(statement, planned)
                self._answer(statement, stats.of_query(self._connections, planned))
            case CreateView():
                wanted = self._request(statement, parsed.query, session, ())
                output = self._queries.plan(wanted, statement.deadline).plan.logical.query.output
                self._answer(statement, self._commands.create_view(parsed, session, output))
            case _:
                rows = self._commands.run(parsed, session, statement.deadline, request)
                self._answer(statement, rows)

    def _read(self, statement: Statement) -> tuple[sql.Statement, Values, Meaning | None]:
        """Returns a statement (for EXECUTE, the prepared one) and the values of its parameters.

        Also returns the meaning of its text, if it is a query without parameters.
        """
        request, deadline = statement.request, statement.deadline
        text, dialect = request.statement, request.dialect
        known = self._meanings.find(text, dialect, statement.principal)
        if known is None:
            parsed = self._compute(lambda: parse.parse(text, dialect=dialect), deadline)
            if isinstance(parsed, Execute):
                return *self._compute(lambda: prepared.executed(parsed, request), deadline), None
            if not isinstance(parsed, Query):
                return parsed, request.parameters, None
            known = self._meanings.remember(text, dialect, statement.principal, parsed)
        return known.query, request.parameters, None if request.parameters else known

    def _answer(self, statement: Statement, rows: Rows) -> None:
        self._write_rows(statement, rows)
        statement.changes = rows.changes
        if rows.dropped and statement.request.after:
            left = self._signer.after(statement.request.after, statement.principal)
            for table in rows.dropped:
                left = forgotten(left, table)
            token = self._signer.sign(merge(left.seen), statement.principal)
            statement.receipt["session"] = self._signer.session_text(token, left.writes, ())

    def _described(
        self, statement: Statement, parsed: DescribePrepared, session: resolution.Session
    ) -> Rows:
        found = prepared.described(parsed, statement.request)
        if parsed.what == "input":
            return self._inputs(statement, found, session)
        query = found.query if isinstance(found, Explain) else found
        if not isinstance(query, Query):
            return prepared.output_rows(None)
        asked = self._request(statement, query, session, (), prepared.with_nulls(query))
        planned = self._queries.plan(asked, statement.deadline)
        statement.described = planned.plan.logical.query.output
        return prepared.output_rows(planned)

    def _inputs(
        self, statement: Statement, found: sql.Statement, session: resolution.Session
    ) -> Rows:
        """Answers DESCRIBE INPUT about a statement."""
        given: Sequence[types.Field] = ()
        match found:
            case Query():
                query, tree = found, prepared.with_nulls(found)
            case (
                Explain(query=query)
                | CreateTableAs(query=query)
                | MaintainTable(query=Query() as query)
            ):
                tree = prepared.with_nulls(query)
            case Insert(query=query):
                tree = prepared.with_nulls(query)
                given = writes.target(self._connections, found, session).given
            case ChangeRows(query=query):
                tree = prepared.with_nulls(query)
                changed = row_changes.changed(self._connections, found, session)
                if isinstance(changed, writes.Target):
                    tree = row_changes.whole_rows(changed, tree)
                else:
                    given = changed.target.given
            case _:
                return prepared.input_rows(Query(exp.Select()), None)
        asked = self._request(statement, query, session, (), tree)
        planned = self._queries.plan(asked, statement.deadline)
        return prepared.input_rows(query, planned, given)

    def _request(
        self,
        statement: Statement,
        query: Query,
        session: resolution.Session,
        values: Values,
        tree: exp.Expr | None = None,
    ) -> QueryRequest:
        request = statement.request
        token = query.token or request.token
        seams: Sequence[Seam] = ()
        if token is not None:
            seams = self._signer.read(token, statement.principal)
        return QueryRequest(
            tree=parameters.bind(query, values) if tree is None else tree,
            session=session,
            engine=request.engine or AUTO,
            token=seams,
            after=self._signer.after(request.after, statement.principal),
            freshness=freshness.parse(request.freshness),
            now=datetime.datetime.fromtimestamp(statement.submitted_at, datetime.UTC),
            row_limit=request.row_limit,
            read_token=lambda text: self._signer.read(text, statement.principal),
        )

    def _note(self, statement: Statement, planned: Planned) -> None:
        """Records what a statement reads, for the audit log, and whether all of it may be seen."""
        scans = planned.plan.logical.scans
        statement.tables = audited.tables_of(scans)
        rights = self._rights(planned.plan.logical)
        statement.sight = Sight.of(each for found in rights.values() for each in found)

    def _rights(self, plan: LogicalPlan) -> dict[str, tuple[TableRights, ...]]:
        """Returns the rights to the table of each scan: the caller's, and those it is read with.

        What the gateway generates itself has only what may be seen.
        """
        owners = {scan.scan_id: scan.reference.owner for scan in plan.query.scans}
        found: dict[str, tuple[TableRights, ...]] = {}
        for scan in plan.scans:
            readers: tuple[Sources, ...] = ()
            if scan.facts.kind != "system":
                readers = (self._connections, as_owner(self._connections, owners[scan.scan_id]))
            source, *path = scan.seam.table
            name = resolution.named(source, tuple(path), "", self._config)
            found[scan.scan_id] = tuple(reader.rights.table(name) for reader in readers)
        return found

    def _explained(self, plan: PhysicalPlan) -> Explained:
        """Returns a plan as it may be shown: without conditions and columns of access rules."""
        rights = self._rights(plan.logical)
        in_part: set[str] = set()

        def shown(scan: Scan) -> Scan:
            found = rights[scan.scan_id]
            if all(each.sees_all for each in found):
                return scan
            in_part.add(scan.scan_id)
            seen = (c for c in scan.columns if all(each.sees_column(c.name) for each in found))
            return dataclasses.replace(scan, columns=tuple(seen), predicate=None)

        scans = tuple(map(shown, plan.logical.scans))
        logical = dataclasses.replace(plan.logical, scans=scans)
        return Explained(dataclasses.replace(plan, logical=logical), frozenset(in_part))

    def _run_query(self, statement: Statement, request: QueryRequest) -> None:
        def planned(plan: Planned) -> None:
            self._note(statement, plan)
            statement.planned(tuple(plan.plan.logical.query.output))
            estimate = plan.plan.estimate
            statement.progress = {"engine": plan.plan.route.engine}
            if statement.sight.all:
                statement.progress |= {
                    "rows_estimated": estimate.cold_rows + estimate.hot_rows,
                    "rows_cold_estimated": estimate.cold_rows,
                    "rows_hot_estimated": estimate.hot_rows,
                    "bytes_estimated": estimate.cold_bytes,
                }

        if request.row_limit is None:  # else its rows are counted here
            file = self._spools.file_for_engine(statement.statement_id)
            request = dataclasses.replace(request, file=file)
        running = self._queries.start(request, statement.deadline, planned)
        with contextlib.closing(running.batches):
            self._write_receipt(statement, request, running)
            self._write_batches(statement, running)

    def _create_as(
        self,
        statement: Statement,
        parsed: CreateTableAs,
        session: resolution.Session,
        values: Values,
    ) -> None:
        request = dataclasses.replace(
            self._request(statement, parsed.query, session, values), row_limit=None
        )

        def create() -> int:
            with placed_at(parsed.location):
                table = writes.new_table(self._connections, parsed.table, session)
            if table is None:
                return 0
            statement.writes = table.name.display
            if not parsed.with_data:
                output = self._queries.plan(request, statement.deadline).plan.logical.query.output
                fields = writes.fields_of_query(output)
                return writes.create(self._connections, table, fields, iter(())).rows
            with self._reading(statement, request) as running:
                fields = writes.fields_of_query(running.planned.plan.logical.query.output)
                rows = iter(running.batches)
                return writes.create(self._connections, table, fields, rows).rows

        self._write_rows(statement, _count(commits.insist(create)))

    def _insert(
        self, statement: Statement, parsed: Insert, session: resolution.Session, values: Values
    ) -> None:
        with placed_at(parsed.location):
            target = writes.target(self._connections, parsed, session)
        statement.writes = target.name.display
        request = dataclasses.replace(
            self._request(statement, parsed.query, session, values),
            row_limit=None,
            fit=functools.partial(writes.cast_to_columns, target),
        )
        with self._reading(statement, request) as running:
            with placed_at(parsed.location):
                writes.check_types(target, running.planned.plan.logical.query.output)
            written = writes.insert(
                self._connections, target, iter(running.batches), statement.deadline
            )
        self._wrote(statement, target, written)

    def _wrote(self, statement: Statement, target: writes.Target, written: writes.Written) -> None:
        """Reports what was written; waits until it is readable if the client sends no tokens."""
        if written.write is not None:
            if not statement.request.carries_tokens:
                writes.wait_until_readable(
                    self._connections, target, written.write, statement.deadline
                )
            statement.write_token = self._signer.write_text(written.write)
            known = statement.receipt["session"]
            statement.receipt["session"] = self._signer.session_text(known, [written.write], ())
        self._write_rows(statement, _count(written.rows))

    def _change_rows(
        self, statement: Statement, parsed: ChangeRows, session: resolution.Session, values: Values
    ) -> None:
        request = dataclasses.replace(
            self._request(statement, parsed.query, session, values),
            row_limit=None,
            freshness=freshness.LATEST,
        )
        if request.token:
            raise SeamlineError(
                STATEMENT_NOT_ALLOWED,
                f"{parsed.what} changes the current rows, not the rows of a token",
                hint="Leave out the token.",
            )

        def change() -> int | None:
            statement.deadline.check()
            with placed_at(parsed.location):
                changed = row_changes.changed(self._connections, parsed, session)
            if not isinstance(changed, writes.Target):
                return self._change_plain(statement, parsed, changed, request)
            self._delete_keys(statement, changed, request)
            return None

        rows = commits.insist(change)
        if rows is not None:
            self._write_rows(statement, _count(rows))

    def _change_plain(
        self, statement: Statement, parsed: ChangeRows, changed: Changed, request: QueryRequest
    ) -> int:
        """Changes rows of a plain table; returns how many."""
        statement.writes = changed.target.name.display
        tree = row_changes.counted(request.tree) if changed.takes_all else request.tree
        fit = functools.partial(writes.cast_to_columns, changed.target)
        fitting = dataclasses.replace(request, tree=tree, fit=fit)
        with self._reading(statement, fitting) as running:
            with placed_at(parsed.location):
                writes.check_types(changed.target, running.planned.plan.logical.query.output)
            return row_changes.apply(changed, _read_table(running, changed), running.batches)

    def _delete_keys(
        self, statement: Statement, target: writes.Target, request: QueryRequest
    ) -> None:
        """Deletes keys of an upsert table, and says how many."""
        statement.writes = target.name.display
        tree = row_changes.whole_rows(target, request.tree)
        with self._reading(statement, dataclasses.replace(request, tree=tree)) as running:
            written = writes.delete_keys(
                self._connections, target, iter(running.batches), statement.deadline
            )
        self._wrote(statement, target, written)

    def _maintained(
        self,
        statement: Statement,
        parsed: MaintainTable,
        session: resolution.Session,
        values: Values,
    ) -> Rows:
        with placed_at(parsed.location):
            name = maintaining.find(self._connections, parsed, session)
        if name is None:
            return done()
        statement.writes, where = name.display, None
        if parsed.query is not None:
            asked = self._request(statement, parsed.query, session, values)
            planned = self._queries.plan(dataclasses.replace(asked, token=()), statement.deadline)
            where = maintaining.spark_condition(planned.plan.logical, parsed.condition_location)

        def report(doing: str) -> None:
            statement.progress = {"engine": SPARK, "doing": doing}

        with placed_at(parsed.location):
            return maintaining.run(
                self._connections, self._spark, parsed, name, where, statement.deadline, report
            )

    @contextlib.contextmanager
    def _reading(self, statement: Statement, request: QueryRequest) -> Iterator[Running]:
        """Runs a query whose rows are used here, not returned to the client."""
        running = self._queries.start(
            request, statement.deadline, lambda plan: self._note(statement, plan)
        )
        with contextlib.closing(running.batches):
            self._write_receipt(statement, request, running)
            yield running

    def _write_receipt(self, statement: Statement, request: QueryRequest, running: Running) -> None:
        plan = running.planned.plan
        read = [s for s in plan.seams if s.table_uuid or s.topic]
        tables = [s for s in read if s.since is None and not s.as_of]
        known = {seam.identity for seam in tables}
        parts = [s for s in read if s.since is not None and s.identity not in known]
        now = () if request.token else (*tables, *(s.whole for s in parts if not s.as_of))
        whole = receipt.receipt(
            plan,
            running.execution.tails,
            freshness=request.freshness,
            as_of=running.planned.as_of,
            token=self._signer.sign((*tables, *merge(s.whole for s in parts)), statement.principal),
            session=self._signer.session_text(
                self._signer.sign(merge((*request.after.seen, *now)), statement.principal),
                request.after.writes,
                () if request.token else tables,
            ),
            retries=running.retries,
            held=running.held.held,
        )
        rights: dict[tuple[str, ...], list[TableRights]] = {}
        found = self._rights(plan.logical)
        for scan in plan.logical.scans:
            rights.setdefault(scan.seam.table, []).extend(found[scan.scan_id])
        statement.whole_receipt, statement.receipt = whole, receipt.shown(whole, rights)

    def _write_batches(self, statement: Statement, running: Running) -> None:
        spool = self._open(statement, running.planned.plan.logical.query.output)
        limit = statement.request.row_limit
        for batch in running.batches:
            statement.deadline.check()
            if limit is not None and spool.row_count + batch.num_rows > limit:
                spool.write(batch.slice(0, limit - spool.row_count))
                statement.truncated = True
                break
            spool.write(batch)
            statement.progress["rows_produced"] = spool.row_count
        if not statement.truncated:
            for chunk in running.batches.chunks():
                statement.deadline.check()
                spool.adopt(chunk)
                statement.progress["rows_produced"] = spool.row_count

    def _explain(self, statement: Statement, request: QueryRequest, asked: Explain) -> None:
        if asked.analyze:
            self._explain_analyze(statement, request, asked)
            return
        planned = self._queries.plan(request, statement.deadline)
        self._note(statement, planned)
        plan = self._explained(planned.plan)
        if asked.type == "VALIDATE":
            self._write_rows(statement, Rows((Output("Valid", types.BOOLEAN),), [(True,)]))
        elif asked.type == "IO":
            self._write_rows(statement, _lines([json.dumps(explain_io(plan), indent=2)]))
        elif asked.format == "JSON":
            self._write_rows(statement, _lines([json.dumps(explain_json(plan), indent=2)]))
        elif asked.type == "LOGICAL":
            self._write_rows(statement, _lines(explain_logical(plan)))
        else:
            self._write_rows(statement, _lines(explain(plan)))

    def _explain_analyze(self, statement: Statement, request: QueryRequest, asked: Explain) -> None:
        """Runs a query and reports on the run; its rows are counted and discarded."""
        rows = 0
        with self._reading(statement, dataclasses.replace(request, row_limit=None)) as running:
            for batch in running.batches:
                statement.deadline.check()
                rows += batch.num_rows
        receipt = statement.receipt
        verbose = asked.verbose and statement.sight.all  # the bound query contains the access rules
        lines = explain(self._explained(running.planned.plan), verbose=verbose)
        ran = f"Ran in {statement.elapsed_s:.3f} s: {rows:,} rows"
        if statement.sight.all:
            ran += f", {receipt['rows_hot']:,} records read from the log "
            ran += f"({receipt['bytes_hot']:,} bytes)"
        lines += ["", ran]
        self._write_rows(statement, _lines(lines))

    def _write_rows(self, statement: Statement, rows: Rows) -> None:
        spool = self._open(statement, rows.output)
        columns = list(zip(*rows.rows, strict=True)) or [()] * len(rows.output)
        arrays = [
            pa.array(column, field.type)
            for column, field in zip(columns, spool.schema, strict=True)
        ]
        spool.write(pa.RecordBatch.from_arrays(arrays, schema=spool.schema))

    def _open(self, statement: Statement, output: Sequence[Output]) -> ResultSpool:
        schema = pa.schema([types.result_field(column.name, column.type) for column in output])
        spool = self._spools.open(schema, statement.statement_id, statement.principal)
        statement.opened(tuple(output), spool)
        return spool


def _read_table(running: Running, changed: Changed) -> IcebergTable:
    """Returns the table whose rows change, as the query for them read it."""
    wanted = changed.target.table.state.uuid
    for table in running.planned.tables.values():
        if table.state.uuid == wanted and isinstance(table, IcebergTable):
            return table
    name = changed.target.name.display
    raise SeamlineError(
        COMMIT_CONFLICT, f"table {name} was replaced by another one in the meantime"
    )


def _lines(lines: Sequence[str]) -> Rows:
    return Rows((Output("Query Plan", types.VARCHAR),), [(line,) for line in lines])


def _count(rows: int) -> Rows:
    return Rows((Output("rows", types.BIGINT),), [(rows,)])
