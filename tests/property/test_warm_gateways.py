"""Goal: whatever a gateway remembers, it answers as one that has just been started.

Method: random histories of a small catalog and two topics: tables and views that come, change, go
and are made again under their names, rows and boundaries that others commit, rollbacks, topics that
grow and are made anew, a table that is lifted to version 3. Two gateways and PyIceberg take turns
at it, and the gateways read in between, so that they remember whatever they can. In the end both
are asked for everything that can be asked, and so is a third that has seen nothing: rows, names,
definitions, earlier snapshots, and what other engines are given.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import pathlib
import random
import sqlite3
import warnings
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from fakes.memory import MemoryLog
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.table import StaticTable, Table
from support import offline
from support.gateway import Gateway

from seamline.connectors.kafka.formats.decoder import Decoder
from seamline.connectors.protocols.deadlines import NoDeadline
from seamline.errors import SeamlineError
from seamline.gateway.access.identity import Identity
from seamline.gateway.access.rights import Principal
from seamline.gateway.catalogs import resolution
from seamline.gateway.iceberg_rest.catalog import Caller, LoadRequest
from seamline.seam.binding import TopicBinding
from seamline.seam.boundary import SUMMARY_KEY, boundary_of, encode
from seamline.seam.log import READ_COMMITTED
from seamline.seam.offsets import OffsetRange, Offsets
from seamline.seam.records import DecoderSpec
from seamline.sql import columns

NEVER = NoDeadline()
TABLES, TOPICS = ("t", "u"), ("one", "two")
KINDS = (
    "CREATE TABLE {t} (id bigint, x bigint, y bigint) WITH (topic = 'one', on_error = 'skip')",
    "CREATE TABLE {t} (id bigint, x bigint) WITH (topic = 'two', on_error = 'null')",
    "CREATE TABLE {t} (id bigint, x bigint) WITH (topic = 'two', on_error = 'skip',"
    " mode = 'upsert', primary_key = ARRAY['id'], key = 'id')",
    "CREATE TABLE {t} (id bigint, x bigint, y bigint)",
)
CHANGES = (
    "DROP TABLE {t}",
    "ALTER TABLE {t} ADD COLUMN y bigint",
    "ALTER TABLE {t} DROP COLUMN x",
    "ALTER TABLE {t} RENAME COLUMN x TO y",
    "ALTER TABLE {t} RENAME COLUMN y TO x",
    "ALTER TABLE {t} SET PROPERTIES on_error = 'null'",
    "ALTER TABLE {t} SET PROPERTIES on_error = 'skip'",
    "COMMENT ON TABLE {t} IS 'a comment'",
    "ALTER TABLE t RENAME TO u",
    "DELETE FROM {t} WHERE id < 2",
    "CREATE OR REPLACE VIEW v AS SELECT id FROM {t}",
    "CREATE OR REPLACE VIEW v AS SELECT * FROM {t} WHERE id > 1",
    "DROP VIEW v",
)
ASKED = (
    "SELECT * FROM {t}",
    "SELECT count(*), sum(id) FROM {t} WHERE id > 2",
    'SELECT * FROM "{t}$cold"',
    'SELECT id, _kafka_offset FROM "{t}$hot"',
    'SELECT snapshot_id, parent_id, operation FROM "{t}$snapshots"',
    'SELECT * FROM "{t}$properties"',
    "SHOW CREATE TABLE {t}",
)
ASKED_OF_ALL = (
    "SELECT * FROM v",
    "SHOW CREATE VIEW v",
    "SELECT table_name, column_name, data_type FROM information_schema.columns"
    " WHERE table_schema = 'default'",
)
STEPS = {
    "say": 8,
    "produce": 5,
    "tier": 5,
    "append": 3,
    "roll_back": 2,
    "partition": 1,
    "lift": 1,
    "grow": 1,
    "recreate": 0.5,
    "read": 8,
}
"""What happens, and how often compared with the others."""
REFUSALS = (NoSuchTableError, ValueError, CommitFailedException, NotImplementedError)


def by_others(change: Callable[..., None]) -> Callable[..., None]:
    """Makes a change of a table one by name, for others who do without what PyIceberg refuses."""

    @functools.wraps(change)
    def changed(self: World, name: str, *given: Any) -> None:
        with contextlib.suppress(*REFUSALS), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            change(self, self._catalog.pyiceberg.load_table(("default", name)), *given)

    return changed


class World:
    """A catalog, two topics, and two gateways that see all of it."""

    def __init__(self, folder: pathlib.Path, dice: random.Random) -> None:
        self._folder = folder
        self._dice = dice
        self.history: list[tuple[Any, ...]] = []
        self._config = offline.config(folder)
        self._log = MemoryLog()
        for topic in TOPICS:
            self._log.create_topic(topic, 2)
        self._catalog = self._connections().catalog("lake")
        self._numbers = 0
        self.gateways = [self._gateway("first", follows=True), self._gateway("second")]
        for name, kind in zip(TABLES, dice.sample(KINDS, 2), strict=True):
            self.say(0, kind, name)

    def _connections(self) -> offline.MemoryConnections:
        return offline.MemoryConnections(self._config, self._log)

    def _gateway(self, name: str, *, follows: bool = False) -> Gateway:
        tail = self._config.tail.model_copy(update={"follow": follows})
        own = {"state_directory": str(self._folder / name), "tail": tail}
        return Gateway(self._config.model_copy(update=own), connections=self._connections())

    def close(self) -> None:
        for gateway in self.gateways:
            gateway.close()

    # --- What happens ----------------------------------------------------------------------------

    def step(self) -> None:
        """Has one thing happen."""
        dice, name = self._dice, self._dice.choice(TABLES)
        (what,) = dice.choices(list(STEPS), list(STEPS.values()))
        given: tuple[Any, ...] = (name,)
        match what:
            case "say":
                given = (dice.randrange(2), dice.choice([*KINDS, *CHANGES, *CHANGES]), name)
            case "read":
                given = (dice.randrange(2), name)
            case "produce" | "grow" | "recreate":
                given = (dice.choice(TOPICS),)
            case "tier" | "roll_back":
                given = (name, dice.randrange(4))
        self.history.append((what, *given))
        getattr(self, what)(*given)

    def say(self, number: int, sql: str, name: str) -> None:
        with contextlib.suppress(SeamlineError):
            self.gateways[number].rows(sql.format(t=name))

    def read(self, number: int, name: str) -> None:
        answers(self.gateways[number], name)

    def produce(self, topic: str) -> None:
        for _ in range(4):
            self._numbers += 1
            id_ = self._numbers % 7
            body = {"id": id_, "x": self._numbers} if id_ else "bad"
            value = json.dumps(body).encode()
            self._log.produce(topic, id_ % 2, value, key=str(id_).encode())

    def grow(self, topic: str) -> None:
        self._log.add_partitions(topic)

    def recreate(self, topic: str) -> None:
        self._log.delete_topic(topic)
        self._log.create_topic(topic, 2)

    @by_others
    def append(self, found: Table) -> None:
        """Adds a row to a table without a topic."""
        if "seamline.topic" not in found.properties:
            self._numbers += 1
            schema = schema_to_pyarrow(found.schema(), include_field_ids=False)
            found.append(pa.Table.from_pylist([{"id": self._numbers}], schema))

    @by_others
    def roll_back(self, found: Table, back: int) -> None:
        line = [entry.snapshot_id for entry in found.metadata.snapshot_log]
        if back < len(line):
            found.manage_snapshots().set_current_snapshot(line[-1 - back]).commit()

    @by_others
    def partition(self, found: Table) -> None:
        with found.update_spec() as spec:
            spec.add_identity("id")

    @by_others
    def tier(self, found: Table, offsets: int) -> None:
        """What the pipeline does, by its definition."""
        state = self._catalog.load(found.name()).state
        binding = TopicBinding.from_properties(state.properties)
        if binding is None:
            return
        before = boundary_of(state, state.current_snapshot_id)
        bounds = self._log.bounds([binding.topic], READ_COMMITTED, NEVER)[binding.topic]
        if before.topic_id != bounds.topic_id:
            return
        starts = {p: before.next.get(p, 0) for p in bounds.end}
        ends = {p: min(end, starts[p] + offsets) for p, end in bounds.end.items()}
        spec = DecoderSpec.of(binding, state.schema.columns)
        first = dict.fromkeys(ends, 0) if binding.is_upsert else starts
        rows = self._rows(spec, [OffsetRange(p, first[p], end) for p, end in ends.items()])
        said = dataclasses.replace(
            before,
            start=before.next,
            next=Offsets(ends),
            base_id=state.current_snapshot_id,
            format=spec.format,
            on_error=spec.on_error,
            schema_id=state.current_schema_id,
        )
        summary = {SUMMARY_KEY: encode(said)}
        schema = schema_to_pyarrow(found.schema(), include_field_ids=False)
        with found.transaction() as transaction:
            if binding.is_upsert:
                transaction.delete(AlwaysTrue(), snapshot_properties=summary)
                newest = {row["id"]: row for row in rows}
                rows = [row for row in newest.values() if not row.pop(columns.DELETED)]
            transaction.append(pa.Table.from_pylist(rows, schema), summary)

    def _rows(self, spec: DecoderSpec, ranges: list[OffsetRange]) -> list[dict[str, Any]]:
        wanted = [r for r in ranges if len(r)]
        batches = self._log.read(spec.topic, wanted, READ_COMMITTED, NEVER)
        return [row for raw in batches for row in Decoder(spec).decode(raw, 1).rows.to_pylist()]

    @by_others
    def lift(self, found: Table) -> None:
        """Leaves what an upgrade to version 3 leaves: the files are as they were."""
        old = found.metadata_location
        body = json.loads(pathlib.Path(old.removeprefix("file://")).read_text())
        new = old.replace(".metadata.json", "-lifted.metadata.json")
        lifted = json.dumps({"next-row-id": 0, **body, "format-version": 3})
        pathlib.Path(new.removeprefix("file://")).write_text(lifted)
        moved = "UPDATE iceberg_tables SET metadata_location = ? WHERE metadata_location = ?"
        with contextlib.closing(sqlite3.connect(self._folder / "catalog.db")) as own, own:
            own.execute(moved, (new, old))

    # --- What is asked ---------------------------------------------------------------------------

    def compare(self) -> None:
        """Asks all gateways, and one that has seen nothing, for everything."""
        with contextlib.closing(self._gateway(f"fresh-{len(self.history)}")) as fresh:
            for name in TABLES:
                wanted = answers(fresh, name)
                for gateway in self.gateways:
                    assert answers(gateway, name) == wanted, self.history


def answers(gateway: Gateway, name: str) -> dict[str, Any]:
    """What a gateway answers about a table, and about everything."""
    asked = [*(sql.format(t=name) for sql in ASKED), *ASKED_OF_ALL]
    found = {sql: answer(gateway, sql) for sql in asked}
    snapshots = found[ASKED[4].format(t=name)]
    for number in [] if isinstance(snapshots, str) else sorted(snapshots)[-2:]:
        sql = f"SELECT * FROM {name} FOR VERSION AS OF {number[0]}"
        found[sql] = answer(gateway, sql)
        found |= count(gateway, f"{name} FOR VERSION AS OF {number[0]}")
    for part in (name, f'"{name}$cold"', f'"{name}$hot"'):
        found |= count(gateway, part)
    return {**found, "served to others": served(gateway, name)}


def count(gateway: Gateway, part: str) -> dict[str, Any]:
    """The number of rows of a part of a table, which must be what an engine counts."""
    sql = f"SELECT count(*) FROM {part}"
    counted = answer(gateway, sql)
    assert counted == answer(gateway, sql, "duckdb"), part
    return {sql: counted}


def answer(gateway: Gateway, sql: str, engine: str = "auto") -> Any:
    """The rows of a statement, in an order, or the code of its error."""
    try:
        return sorted(gateway.rows(sql, engine), key=repr)
    except SeamlineError as error:
        return error.code.name


def served(gateway: Gateway, name: str) -> Any:
    """What another engine is given: the head of the table, and its rows as PyIceberg reads them."""
    rest = gateway.parts.iceberg
    resolved = resolution.resolve(
        (name,), resolution.session(gateway.config), gateway.parts.connections
    )
    caller = Caller(Identity(Principal("ann")), client="engine")
    asked = LoadRequest(resolved, caller, begins=True, planned=False, only_referenced=False)
    try:
        with rest.deadline() as deadline:
            metadata = rest.catalog.load(asked, deadline).metadata
    except SeamlineError as error:
        return error.code.name
    body = json.loads(metadata.text)
    head = body.get("current-snapshot-id")
    rows = StaticTable.from_metadata(metadata.location).scan().to_arrow().to_pylist()
    ids = [s.get("first-row-id") for s in body["snapshots"] if s["snapshot-id"] == head]
    return head, body["format-version"], ids, body.get("next-row-id"), sorted(rows, key=repr)


@pytest.mark.prove
@pytest.mark.parametrize(
    "seed", [0, 1, *(pytest.param(n, marks=pytest.mark.soak) for n in range(2, 100))]
)
def test_what_is_remembered_shows_in_no_answer(tmp_path: pathlib.Path, seed: int) -> None:
    with contextlib.closing(World(tmp_path, random.Random(seed))) as world:
        for _ in range(3):
            for _ in range(12):
                world.step()
            world.compare()
