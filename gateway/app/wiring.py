"""The composition root: what a gateway is made of, and what each part is given.

This is the only module that knows every part. Parts are closed in the reverse order of their
creation.
"""

from __future__ import annotations

import contextlib
import gc
import pathlib
import time
from collections.abc import Callable
from typing import Protocol, TypeVar

import flask

from seamline.connectors import supervision
from seamline.connectors.cache import Cache
from seamline.connectors.dependencies import Outage
from seamline.connectors.duckdb.workers import DuckDBWorkers
from seamline.connectors.kafka.appending import TopicAppender, idempotent_producer
from seamline.connectors.machine import cores
from seamline.connectors.protocols.engines import Engine
from seamline.connectors.supervision import Loop
from seamline.gateway.access.audit import AuditLog
from seamline.gateway.access.audit_sinks import FileSink
from seamline.gateway.access.authentication import Authentication
from seamline.gateway.access.control import AccessControl
from seamline.gateway.access.rights import Principal, Rights
from seamline.gateway.access.rules import Action
from seamline.gateway.app.application import create_app
from seamline.gateway.app.spark import spark_engine
from seamline.gateway.catalogs.connections import Connections
from seamline.gateway.commands.context import Environment
from seamline.gateway.commands.runner import StatementRunner
from seamline.gateway.config.model import Config
from seamline.gateway.faces import FACES
from seamline.gateway.http.face_types import Listener
from seamline.gateway.http.request_slots import RequestSlots
from seamline.gateway.http.streams import Streams
from seamline.gateway.iceberg_rest.catalog import IcebergRest, ServedCatalog
from seamline.gateway.iceberg_rest.scan_plans import ScanPlans
from seamline.gateway.iceberg_rest.sessions import SessionTokens
from seamline.gateway.iceberg_rest.table_serving import ServedTables
from seamline.gateway.memory import give_back_memory
from seamline.gateway.metrics import new_registry, text_of
from seamline.gateway.query.computing import Computing
from seamline.gateway.query.gather import Gatherer
from seamline.gateway.query.loaded import LoadedTables
from seamline.gateway.query.meanings import Meanings
from seamline.gateway.query.partial_aggregates import PartialAggregates
from seamline.gateway.query.queries import Queries
from seamline.gateway.query.result_cache import ResultCache
from seamline.gateway.query.run import Executor
from seamline.gateway.query.seams import Seams
from seamline.gateway.query.snapshot_tags import SnapshotTags
from seamline.gateway.query.tokens import TokenSigner, kept_secret
from seamline.gateway.query.views import ViewExpander
from seamline.gateway.readiness import Readiness
from seamline.gateway.statements.memory_limits import MemoryLimits
from seamline.gateway.statements.metrics import Metrics
from seamline.gateway.statements.service import Service
from seamline.gateway.statements.spool import SpoolDirectory
from seamline.gateway.statements.statement import Statement, StatementRequest
from seamline.gateway.tail.metrics import TailMetrics
from seamline.gateway.tail.tails import followers
from seamline.planners.plan.route import AUTO, DUCKDB, SPARK, Limits
from seamline.seam.seam import Seam
from seamline.sql.parsing.statements import KillStatement

_SWEEP_S = 5.0
_WAITS_MAX = 500
"""Requests that may wait for statements at once; other connections are left for other requests."""
_PRINCIPALS_MAX = 1024
"""The number of principals whose `StatementRunner` is kept."""
_YOUNG = 1


class _Closeable(Protocol):
    def close(self) -> None: ...


T = TypeVar("T", bound=_Closeable)


class Gateway:
    """One gateway. Safe to share between threads.

    Args:
        config: The configuration.
        clock: Returns seconds since the epoch, for what other engines are served.
        connections: What it reads from; made from the configuration unless given.
        partials: The partial aggregates of files that it keeps.
    """

    def __init__(
        self,
        config: Config,
        clock: Callable[[], float] = time.time,
        connections: Connections | None = None,
        partials: PartialAggregates | None = None,
    ) -> None:
        self.config, self.partials = config, partials or PartialAggregates()
        self._parts, self._state = contextlib.ExitStack(), pathlib.Path(config.state_directory)
        self._registry = new_registry()
        limits = config.limits
        self._spools = spools = SpoolDirectory(
            self._state / "results", size_bytes_max=limits.result_bytes, shared=config.asks_who
        )
        self._parts.callback(spools.clear)
        self.connections = self._closing(connections or Connections(config))
        self.followers = followers(config, self.connections)
        if self.followers is not None:
            self._parts.callback(self.followers.close)
            self._registry.register(TailMetrics(self.followers))
        self._computing = self._closing(Computing())
        engines = self._engines()
        self.executor = executor = Executor(
            self.connections,
            engines,
            tail_bytes_max=limits.memory_bytes,
            tail_rows_max=limits.duckdb_tail_rows_max,
            spool=spools.open_unnamed,
            followers=self.followers,
        )
        gatherer = Gatherer(self.connections, executor.tails, self._virtual_seam)
        tables = ServedTables(config, self.connections, gatherer, executor.tails, clock)
        self._parts.callback(tables.close)
        self.secret = secret = config.tokens.secret or kept_secret(self._state / "token-secret")
        self._signer = _token_signer(config, secret)
        self.access = AccessControl(_path(config.auth.rules), _path(config.auth.groups))
        self.authentication = Authentication(config)
        self.iceberg = self._iceberg_rest(tables, secret)
        self.snapshot_tags = self._closing(SnapshotTags(self.connections))
        self._limits = Limits(
            duckdb_cold_bytes_max=limits.duckdb_cold_bytes_max,
            duckdb_tail_rows_max=limits.duckdb_tail_rows_max,
            spark=SPARK in engines,
        )
        self._loaded = LoadedTables(self.connections)
        self._runners: Cache[Rights, StatementRunner] = Cache(_PRINCIPALS_MAX)
        self.audit = self._closing(self._audit_log())
        self.service = self._closing(self._statements())
        self._prepare_faces()
        self._look_after_statements()

    def app(self) -> flask.Flask:
        """Returns its HTTP application."""
        return create_app(self, [face.make(self) for face in FACES.values() if not face.has_port])

    def open_ports(self) -> list[str]:
        """Opens the ports of those faces that are given one, until the gateway is closed.

        Returns:
            Their addresses.

        Raises:
            SeamlineError: PORT_TAKEN, INVALID_CONFIG.
        """
        listeners: list[Listener] = [
            self._closing(FACES[name].make(self)) for name in self.config.ports
        ]
        return [listener.address for listener in listeners]

    def metrics_text(self) -> str:
        """Returns every metric, as `/metrics` serves them."""
        return text_of(self._registry)

    def close(self) -> None:
        """Cancels running statements, waits for them, and closes everything."""
        self._parts.close()

    def _engines(self) -> dict[str, Engine]:
        limits = self.config.limits
        self._duckdb = self._closing(
            DuckDBWorkers(
                self._computing.run,
                memory_bytes=limits.memory_bytes,
                threads=limits.duckdb_threads or cores(),
                spill_directory=str(self._state / "spill"),
                spill_bytes=limits.spill_bytes,
            )
        )
        self._duckdb.warm_up()
        engines: dict[str, Engine] = {DUCKDB: self._duckdb}
        self.spark = spark_engine(self.config, self._computing.run)
        if self.spark is not None:
            engines[SPARK] = self._closing(self.spark)
        return engines

    def _iceberg_rest(self, tables: ServedTables, secret: str) -> IcebergRest:
        config = self.config
        sessions = SessionTokens(secret, config.tokens.age_seconds_max)
        return IcebergRest(
            config=config,
            authentication=self.authentication,
            connections=self.connections,
            catalog=ServedCatalog(tables, sessions, config.iceberg.hold_seconds),
            plans=self._closing(
                ScanPlans(config.limits.statement_seconds_max, shared=config.asks_who)
            ),
            sessions=sessions,
            rights_of=self.access.rights_of,
        )

    def _audit_log(self) -> AuditLog:
        config = self.config.audit
        hides = config.literals == "redact"
        if config.topic is not None:
            cluster = self.connections.cluster(self.config.default_cluster)
            appender = TopicAppender(idempotent_producer(cluster.config), config.topic)
            made = AuditLog(appender, hides_literals=hides)
        else:
            file = FileSink(config.file) if config.file is not None else None
            made = AuditLog(file, hides_literals=hides)
        self._registry.register(made)
        return made

    def _statements(self) -> Service:
        self._meanings, self.results = Meanings(), ResultCache()
        self._registry.register(self.results)
        self._registry.register(self.partials)
        metrics, rights_of = Metrics(self._registry), self.access.rights_of
        return Service(
            self.config.shared(),
            self._run,
            metrics,
            rights_of,
            self.audit,
            is_short=self._is_literal,
        )

    def _is_literal(self, request: StatementRequest, caller: Principal) -> bool:
        """Whether a statement is known to consist of literals, which no engine has to compute."""
        if request.engine not in {None, AUTO} or request.parameters or request.token is not None:
            return False
        meaning = self._meanings.find(request.statement, request.dialect, caller.name)
        return meaning is not None and meaning.literal is not None

    def _run(self, statement: Statement) -> None:
        """Runs a statement with the rights of its caller."""
        rights = self.access.rights_of(statement.caller)
        self._runners.get_or_make(rights, lambda: self._runner_of(rights)).run(statement)

    def _runner_of(self, rights: Rights) -> StatementRunner:
        given = self.connections.given_to(rights)
        queries = Queries(
            self._gatherer(rights),
            self.executor,
            self._limits,
            snapshot_tags=self.snapshot_tags,
            views=ViewExpander(given),
            user=rights.principal.name,
            groups=rights.principal.groups,
            scan_bytes_max=self.config.limits.scan_bytes_max,
            compute=self._computing.run,
            results=self.results,
            partials=self.partials,
        )
        environment = Environment(
            given,
            queries,
            self._signer,
            self._spools,
            lambda killed: self._kill(killed, rights.principal),
            self._computing.run,
            self.spark,
        )
        return StatementRunner(environment, self._meanings)

    def _gatherer(self, rights: Rights) -> Gatherer:
        given = self.connections.given_to(rights)
        loaded = self._loaded.given_to(given)
        return Gatherer(
            given,
            self.executor.tails,
            self._virtual_seam,
            loaded,
            statements=lambda: self.service.statements(rights.principal),
        )

    def _prepare_faces(self) -> None:
        """Makes the parts that only faces need."""
        config, rights_of = self.config, self.access.rights_of
        self.seams = Seams(config, lambda caller: self._gatherer(rights_of(caller)), self._signer)
        self.slots = RequestSlots(config.http.threads, _WAITS_MAX, shared=config.asks_who)
        self.streams = Streams(self.authentication)
        folders = self._state / "results", self._state / "spill"
        self.readiness = Readiness(lambda: self.service.accepts_statements, folders, self._outages)
        self._registry.register(self.readiness)

    def _outages(self) -> list[Outage]:
        keys = self.authentication.outage
        return [*self.connections.outages(), *([keys] if keys is not None else [])]

    def _kill(self, request: KillStatement, caller: Principal) -> None:
        why = f"the statement was ended by {caller.name}"
        statement = self.service.statement(request.statement_id, caller, Action.KILL)
        statement.cancel(f"{why}: {request.message}" if request.message else why)

    def _virtual_seam(self, table_uuid: str, snapshot_id: int) -> Seam | None:
        """Returns the seam of a virtual snapshot that was handed out; None if it is not known."""
        snapshot = self.iceberg.catalog.tables.snapshots.find(table_uuid, snapshot_id)
        return None if snapshot is None else snapshot.seam

    def _look_after_statements(self) -> None:
        memory = MemoryLimits(self.config.shared(), self.service.all, self._duckdb.held)
        for loop in (
            Loop("sweeper", self._sweep, delay_s=_SWEEP_S),
            Loop("memory", memory.look),
        ):
            self._parts.callback(loop.stop)

    def _sweep(self) -> float:
        if self.followers is not None:
            supervision.attempt("sweeper", self.followers.sweep)
        gc.collect(_YOUNG)  # a failed statement's traceback may hold a tail; see `settle_memory`
        self.service.sweep()
        supervision.attempt("sweeper", self.snapshot_tags.sweep)
        give_back_memory()
        return _SWEEP_S

    def _closing(self, part: T) -> T:
        self._parts.callback(part.close)
        return part


def _token_signer(config: Config, secret: str) -> TokenSigner:
    """Returns what signs tokens; where rules may hide rows, nobody can count them in a token."""
    is_secret = config.auth.rules is not None
    return TokenSigner(secret, config.tokens.age_seconds_max, is_secret=is_secret)


def _path(file: str | None) -> pathlib.Path | None:
    return pathlib.Path(file) if file is not None else None
