"""Random histories of a table that others write to, with what each step makes of its rows.

Every step is done by a real engine: Spark's statements and procedures, or PyIceberg. A step that
the engine itself refuses changes nothing, which is then what the next reading has to show.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import pathlib
import random
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
from pyiceberg.exceptions import ValidationError
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyspark.errors import PySparkException

from seamline.gateway.commands import adopting
from seamline.gateway.commands.adopting import Adoption
from seamline.gateway.deadline import no_deadline
from support.adopting import data_complete
from support.foreign_model import ADOPTED, APPEND, PARTITIONS, UPSERT, Cold, Model, Row
from support.stack import Stack

OLD_S = 30 * 86_400
GROUP = "connect-iceberg"
REFUSED = (PySparkException, ValidationError, NotImplementedError, ValueError)
"""The error with which an engine refuses a step."""

MODES = ("merge-on-read", "copy-on-write")
Change = Callable[[], None]


class ForeignStory:
    """One table and its topic.

    Args:
        stack: Where.
        name: Of both.
        seed: Decides everything.
        mode: How topic and table are one.
    """

    def __init__(self, stack: Stack, name: str, seed: int, mode: str) -> None:
        self.stack, self.name, self.dice = stack, name, random.Random(seed)
        self.model = Model(mode)
        self.text, self.steps, self.refusals = "text", list[str](), list[str]()
        self.doubled_from: int | None = None
        self._next_id, self._branches, self._staged = 0, dict[str, Cold](), dict[str, Row]()
        stack.create_topic(name, len(PARTITIONS))
        self._create(self.dice.choice((2, 2, 3)) if mode != ADOPTED else 2)

    # --- The table -------------------------------------------------------------------------------

    @property
    def table(self) -> str:
        """Its name in Spark."""
        return f"lake.default.{self.name}"

    @property
    def iceberg(self) -> Any:
        """The table by PyIceberg."""
        return self.stack.load(self.name).iceberg

    @property
    def head(self) -> int:
        """The snapshot that it has now."""
        found = self.stack.load(self.name).state.current_snapshot_id
        assert found is not None
        return int(found)

    def _create(self, version: int) -> None:
        if self.model.mode == ADOPTED:
            self._create_adopted()
        else:
            options: dict[str, Any] = {"format_version": version}
            if self.model.mode == UPSERT:
                options |= {"mode": "upsert", "primary_key": ("id",), "key": "id"}
            if self.dice.random() < 0.4:
                options["partitioning"] = (self.dice.choice(("n", "bucket(id, 3)")),)
                if self.model.mode == UPSERT:
                    options["partitioning"] = ("bucket(id, 3)",)
            self.stack.create_table(self.name, "id bigint, text varchar, n integer", **options)
        self.remember()

    def _create_adopted(self) -> None:
        fields = [("id", pa.int64()), ("text", pa.string()), ("n", pa.int32())]
        places = [("k_partition", pa.int32()), ("k_offset", pa.int64())]
        self.stack.connections.catalog("lake").pyiceberg.create_table(
            ("default", self.name), pa.schema([*fields, *places])
        )
        self.stack.create_topic(f"control-{self.name}", 1)
        self.control = 0
        self.produce()
        self.fill()
        columns = ("partition=k_partition", "offset=k_offset")
        asked = Adoption("default", self.name, name=self.stack.resolve(self.name), columns=columns)
        found = adopting.examine(self.stack.connections, asked, no_deadline())
        adopting.adopt(self.stack.connections, found)

    def remember(self) -> None:
        """Notes what the newest snapshot holds."""
        self.model.past[self.head] = self.model.cold

    def sql(self, *statements: str) -> None:
        """Has Spark run statements."""
        for statement in statements:
            full = statement.format(t=self.table, n=f"default.{self.name}", text=self.text)
            self.stack.spark.sql(full).collect()

    # --- Steps -----------------------------------------------------------------------------------

    def step(self) -> str:
        """Does something; says what."""
        weights = self._steps()
        (work,) = self.dice.choices(list(weights), list(weights.values()))
        said = work.__name__.strip("_")
        before = self.model.cold
        try:
            work()
        except REFUSED as error:
            self.model.cold = before
            said = f"{said}: refused"
            self.refusals.append(f"{work.__name__}: {str(error)[:300]}")
        self.steps.append(said)
        self.remember()
        return said

    def _steps(self) -> dict[Change, float]:
        found: dict[Change, float] = {
            self.produce: 4.0,
            self.fill: 3.0,
            self._insert: 1.5,
            self._append_by_pyiceberg: 1.0,
            self._delete: 2.0,
            self._update: 1.5,
            self._merge: 1.5,
            self._overwrite_by_pyiceberg: 0.7,
            self._delete_by_pyiceberg: 0.7,
            self._rewrite_files: 1.2,
            self._rewrite_manifests: 0.7,
            self._rewrite_deletes: 0.7,
            self._expire: 0.7,
            self._remove_orphans: 0.5,
            self._statistics: 0.4,
            self._roll_back: 1.5,
            self._set_current: 0.7,
            self._branch: 1.2,
            self._fast_forward: 1.2,
            self._stage: 0.7,
            self._publish: 0.9,
            self._pick: 0.7,
            self._change_schema: 1.0,
            self._change_partitions: 0.8,
            self._change_properties: 1.5,
            self._upgrade: 0.2,
            self._register_again: 0.3,
            self._double: 0.7 if self.model.mode == APPEND else 0.0,
        }
        if self.model.mode != ADOPTED:
            found[self._maintain] = 0.7
        return found

    # --- The topic, and who fills the table ------------------------------------------------------

    def produce(self) -> None:
        """New records; of an upsert table also older keys, and records without a value."""
        for partition in PARTITIONS:
            values: list[Any] = []
            keys: list[str] = []
            for _ in range(self.dice.randint(0, 8)):
                record = self._record(partition)
                self.model.produce(partition, record)
                if isinstance(record, Row):
                    values.append({"id": record.id, "text": record.text, "n": record.n})
                    keys.append(str(record.id))
                else:
                    values.append(None)
                    keys.append(str(record))
            self.stack.produce(self.name, values, partition=partition, keys=keys)

    def _record(self, partition: int) -> Row | int:
        chance = self.dice
        if self.model.mode == UPSERT:
            id_ = chance.randrange(20) * 2 + partition
            if chance.random() < 0.2:
                return id_
        else:
            id_ = self._new_id()
        return Row(id_, f"t{chance.randrange(9)}", chance.choice([None, chance.randrange(5)]))

    def _new_id(self) -> int:
        self._next_id += 1
        return self._next_id

    def fill(self) -> None:
        """Whoever fills the table does."""
        if self.model.mode == ADOPTED:
            self._sink()
        else:
            self.stack.tier(self.name, records_max=self.dice.choice((5, 1_000_000)))
            self.model.cold = self.model.tiered()

    def _sink(self) -> None:
        """A commit of Kafka Connect's sink, and what it says of it in its control topic."""
        ends = {
            p: self.dice.randint(self.model.cold.ends[p], end) for p, end in self.model.ends.items()
        }
        control = f"control-{self.name}"
        self.stack.produce(control, [data_complete(ends, GROUP, self.name)])
        self.control += 1
        rows = [
            row
            for p, records in self.model.log.items()
            for row in records[self.model.cold.ends[p] : ends[p]]
            if isinstance(row, Row)
        ]
        summary = {
            f"kafka.connect.offsets.{control}.{GROUP}": json.dumps({"0": self.control}),
            "kafka.connect.commit-id": str(uuid.UUID(int=self.control)),
        }
        self._append(rows, summary)
        self.model.cold = Cold((*self.model.cold.rows, *rows), ends)

    def _append(self, rows: list[Row], summary: dict[str, str] | None = None) -> None:
        self.iceberg.append(self._arrow(rows), snapshot_properties=summary or {})

    def _arrow(self, rows: list[Row]) -> pa.Table:
        schema = schema_to_pyarrow(self.iceberg.schema())
        places = [row.place or (None, None) for row in rows]
        given = {
            "id": [row.id for row in rows],
            self.text: [row.text for row in rows],
            "n": [row.n for row in rows],
            "k_partition": [p for p, _ in places],
            "k_offset": [o for _, o in places],
        }
        return pa.table(
            [given.get(field.name, [None] * len(rows)) for field in schema], schema=schema
        )

    def _maintain(self) -> None:
        self.stack.maintain(self.name, expire=self.dice.random() < 0.5)

    # --- Rows by other hands ---------------------------------------------------------------------

    def _foreign(self) -> Row:
        n = self.dice.choice([None, self.dice.randrange(5)])
        return Row(100_000 + self._new_id(), self.dice.choice([None, "foreign"]), n)

    def _insert_into(self, table: str) -> Row:
        row = self._foreign()
        given = {"id": str(row.id), "n": "NULL" if row.n is None else str(row.n)}
        given[self.text] = "NULL" if row.text is None else f"'{row.text}'"
        names = [field.name for field in self.iceberg.schema().fields]
        self.sql(f"INSERT INTO {table} SELECT {', '.join(given.get(n, 'NULL') for n in names)}")
        return row

    def _insert(self) -> None:
        row = self._insert_into("{t}")
        self.model.cold = self.model.cold.changed(lambda r: r, [row])

    def _append_by_pyiceberg(self) -> None:
        rows = [self._foreign() for _ in range(self.dice.randint(1, 3))]
        self._append(rows)
        self.model.cold = self.model.cold.changed(lambda r: r, rows)

    def some(self) -> tuple[str, Callable[[Row], bool]]:
        """A condition in SQL, and as a function."""
        k, rest, n = self.dice.randint(2, 6), self.dice.randrange(2), self.dice.randrange(5)
        return self.dice.choice(
            [
                (f"id % {k} = {rest}", lambda row: row.id % k == rest),
                (f"n = {n}", lambda row: row.n == n),
                ("n IS NULL", lambda row: row.n is None),
                (f"{self.text} = 't{n}'", lambda row: row.text == f"t{n}"),
                ("id > 100000", lambda row: row.id > 100_000),
            ]
        )

    def _delete(self) -> None:
        condition, is_gone = self.some()
        self.sql(f"DELETE FROM {{t}} WHERE {condition}")
        self.model.cold = self.model.cold.changed(lambda r: None if is_gone(r) else r)

    def _update(self) -> None:
        condition, is_met = self.some()
        self.sql(f"UPDATE {{t}} SET {{text}} = 'updated' WHERE {condition}")
        self.model.cold = self.model.cold.changed(
            lambda r: dataclasses.replace(r, text="updated") if is_met(r) else r
        )

    def _merge(self) -> None:
        new, k = self._foreign(), self.dice.randint(2, 6)
        self.sql(
            "MERGE INTO {t} AS t USING (SELECT id FROM {t} WHERE id % "
            f"{k} = 0 UNION ALL SELECT {new.id}) AS s ON t.id = s.id "
            "WHEN MATCHED AND t.n = 1 THEN DELETE WHEN MATCHED THEN UPDATE SET {text} = 'merged' "
            f"WHEN NOT MATCHED THEN INSERT (id, {{text}}) VALUES (s.id, 'new')"
        )

        def change(row: Row) -> Row | None:
            if row.id % k:
                return row
            return None if row.n == 1 else dataclasses.replace(row, text="merged")

        self.model.cold = self.model.cold.changed(change, [Row(new.id, "new", None)])

    def _overwrite_by_pyiceberg(self) -> None:
        n, row = self.dice.randrange(5), self._foreign()
        self.iceberg.overwrite(self._arrow([row]), overwrite_filter=f"n = {n}")
        self.model.cold = self.model.cold.changed(lambda r: None if r.n == n else r, [row])

    def _delete_by_pyiceberg(self) -> None:
        n = self.dice.randrange(5)
        self.iceberg.delete(f"n = {n}")
        self.model.cold = self.model.cold.changed(lambda r: None if r.n == n else r)

    # --- Maintenance by other hands --------------------------------------------------------------

    def _rewrite_files(self) -> None:
        how = self.dice.choice(
            (
                "options => map('rewrite-all', 'true')",
                "options => map('min-input-files', '1', 'remove-dangling-deletes', 'true')",
                "options => map('rewrite-all', 'true', 'partial-progress.enabled', 'true')",
                "strategy => 'sort', sort_order => 'n DESC NULLS LAST, id', "
                "options => map('rewrite-all', 'true')",
                "strategy => 'sort', sort_order => 'zorder(id, n)', "
                "options => map('rewrite-all', 'true')",
                "where => 'id > 9', options => map('rewrite-all', 'true')",
                "where => 'n = 1', options => map('rewrite-all', 'true')",
            )
        )
        self.sql(f"CALL lake.system.rewrite_data_files(table => '{{n}}', {how})")

    def _rewrite_manifests(self) -> None:
        self.sql("CALL lake.system.rewrite_manifests('{n}')")

    def _rewrite_deletes(self) -> None:
        self.sql(
            "CALL lake.system.rewrite_position_delete_files(table => '{n}', "
            "options => map('rewrite-all', 'true'))"
        )

    def _expire(self) -> None:
        if self.model.mode == ADOPTED:  # by whose commits the boundary is known
            self._sink()
        self.sql(
            "CALL lake.system.expire_snapshots(table => '{n}', older_than => "
            f"TIMESTAMP '2099-01-01 00:00:00', retain_last => {self.dice.choice((1, 2, 4))})"
        )

    def _remove_orphans(self) -> None:
        """Of any age: all files of the table are made old before."""
        folder = pathlib.Path(self.stack.load(self.name).state.location.removeprefix("file://"))
        then = time.time() - OLD_S
        for path in folder.rglob("*"):
            os.utime(path, (then, then))
        self.sql("CALL lake.system.remove_orphan_files(table => '{n}')")

    def _statistics(self) -> None:
        what = self.dice.choice(("table", "partition"))
        self.sql(f"CALL lake.system.compute_{what}_stats('{{n}}')")

    # --- Lines of snapshots ----------------------------------------------------------------------

    def _known(self, *, line: bool) -> list[int]:
        """Snapshots that are there, of the main line or of any."""
        state = self.stack.load(self.name).state
        found = [s.snapshot_id for s in state.ancestors(state.current_snapshot_id)]
        every = found if line else list(state.snapshots)
        ends = self.model.cold.ends
        return [
            s
            for s in every
            if s in self.model.past
            and (self.model.mode != ADOPTED or self.model.past[s].ends == ends)
        ]

    def _go_to(self, procedure: str, snapshot: int) -> None:
        self.sql(f"CALL lake.system.{procedure}('{{n}}', {snapshot})")
        self.model.cold = self.model.past[snapshot]

    def _roll_back(self) -> None:
        known = self._known(line=True)
        if known:
            self._go_to("rollback_to_snapshot", self.dice.choice(known[:6]))

    def _set_current(self) -> None:
        known = self._known(line=False)
        if known:
            self._go_to("set_current_snapshot", self.dice.choice(known))

    def _branch(self) -> None:
        name = f"b{len(self._branches)}"
        self.sql(f"ALTER TABLE {{t}} CREATE BRANCH {name}")
        self._branches[name] = self.model.cold
        for _ in range(self.dice.randint(0, 2)):
            if self.dice.random() < 0.5:
                row = self._insert_into(f"{{t}}.branch_{name}")
                self._branches[name] = self._branches[name].changed(lambda r: r, [row])
            else:
                condition, is_gone = self.some()
                self.sql(f"DELETE FROM {{t}}.branch_{name} WHERE {condition}")
                self._branches[name] = self._branches[name].changed(
                    lambda r, is_gone=is_gone: None if is_gone(r) else r  # type: ignore[misc]
                )
            reference = self.iceberg.metadata.refs[name]
            self.model.past[reference.snapshot_id] = self._branches[name]

    def _fast_forward(self) -> None:
        if not self._branches:
            return self._branch()
        name = self.dice.choice(list(self._branches))
        self.sql(f"CALL lake.system.fast_forward('{{n}}', 'main', '{name}')")
        self.model.cold = self._branches[name]
        return None

    @contextlib.contextmanager
    def _set(self, key: str, value: str) -> Iterator[None]:
        self.stack.spark.conf.set(key, value)
        try:
            yield
        finally:
            self.stack.spark.conf.unset(key)

    def _stage(self) -> None:
        """Write, audit, publish: the rows are there only once they are published."""
        self.sql("ALTER TABLE {t} SET TBLPROPERTIES ('write.wap.enabled' = 'true')")
        name = f"w{len(self._staged)}"
        with self._set("spark.wap.id", name):
            self._staged[name] = self._insert_into("{t}")

    def _publish(self) -> None:
        if not self._staged:
            return self._stage()
        name = self.dice.choice(list(self._staged))
        self.sql(f"CALL lake.system.publish_changes('{{n}}', '{name}')")
        self.model.cold = self.model.cold.changed(lambda r: r, [self._staged[name]])
        return None

    def _pick(self) -> None:
        """Cherry-picks one of another line; what it added is added again."""
        state = self.stack.load(self.name).state
        line = {s.snapshot_id for s in state.ancestors(state.current_snapshot_id)}
        past = self.model.past
        known = [
            s
            for s in state.snapshots.values()
            if s.snapshot_id not in line and s.snapshot_id in past and s.parent_id in past
        ]
        if not known:
            return
        chosen = self.dice.choice(known)
        assert chosen.parent_id is not None
        head = self.head
        if chosen.parent_id != head:
            before = set(past[chosen.parent_id].rows)
            more = [row for row in past[chosen.snapshot_id].rows if row not in before]
            picked = self.model.cold.changed(lambda r: r, more)
        else:
            picked, more = past[chosen.snapshot_id], []
        self.sql(f"CALL lake.system.cherrypick_snapshot('{{n}}', {chosen.snapshot_id})")
        self.model.cold = picked
        if any(row.place is not None for row in more):
            self.doubled_from = head

    def _double(self) -> None:
        """Records that are in the table are put there again, by whatever writer."""
        if not any(row.place is not None for row in self.model.cold.rows):
            return
        before = self.head
        self.sql("INSERT INTO {t} SELECT * FROM {t} WHERE _kafka_offset IS NOT NULL")
        self.doubled_from = before

    def undouble(self) -> None:
        """Rolls back to before the records were doubled."""
        assert self.doubled_from is not None
        self.model.past.pop(self.head, None)
        self._go_to("rollback_to_snapshot", self.doubled_from)
        self.doubled_from = None

    # --- Metadata --------------------------------------------------------------------------------

    def _change_schema(self) -> None:
        other = {"text": "words", "words": "text"}[self.text]
        found = {
            f"ALTER TABLE {{t}} RENAME COLUMN {self.text} TO {other}": other,
            "ALTER TABLE {t} ALTER COLUMN n TYPE bigint": self.text,
            f"ALTER TABLE {{t}} ADD COLUMN extra{len(self.steps)} bigint": self.text,
            "ALTER TABLE {t} ALTER COLUMN n FIRST": self.text,
            "ALTER TABLE {t} ALTER COLUMN id AFTER n": self.text,
            "ALTER TABLE {t} WRITE ORDERED BY n DESC, id": self.text,
            "ALTER TABLE {t} WRITE UNORDERED": self.text,
            "ALTER TABLE {t} WRITE DISTRIBUTED BY PARTITION LOCALLY ORDERED BY id": self.text,
        }
        if self.model.mode == ADOPTED:  # its sink knows columns by their names
            del found[next(iter(found))]
        statement = self.dice.choice(list(found))
        self.sql(statement)
        self.text = found[statement]

    def _change_partitions(self) -> None:
        self.sql(
            self.dice.choice(
                (
                    "ALTER TABLE {t} ADD PARTITION FIELD bucket(4, id)",
                    "ALTER TABLE {t} DROP PARTITION FIELD bucket(4, id)",
                    "ALTER TABLE {t} ADD PARTITION FIELD n",
                    "ALTER TABLE {t} DROP PARTITION FIELD n",
                    "ALTER TABLE {t} ADD PARTITION FIELD truncate(10, id)",
                    "ALTER TABLE {t} ADD PARTITION FIELD truncate(1, {text}) AS first",
                    "ALTER TABLE {t} DROP PARTITION FIELD first",
                )
            )
        )

    def replace(self) -> None:
        """Puts another table in its place, which keeps its properties and its history."""
        self.sql("CREATE OR REPLACE TABLE {t} USING iceberg AS SELECT * FROM {t}")

    def _change_properties(self) -> None:
        chance = self.dice
        name, value = chance.choice(
            [
                *((f"write.{what}.mode", chance.choice(MODES)) for what in WRITES),
                ("write.metadata.metrics.default", chance.choice(METRICS)),
                ("write.format.default", chance.choice(("parquet", "avro", "orc"))),
                ("write.parquet.compression-codec", chance.choice(("gzip", "zstd", "snappy"))),
                ("write.metadata.delete-after-commit.enabled", "true"),
                ("write.metadata.previous-versions-max", "1"),
                ("commit.manifest-merge.enabled", chance.choice(("true", "false"))),
                ("commit.manifest.min-count-to-merge", "2"),
                ("write.object-storage.enabled", chance.choice(("true", "false"))),
                ("write.delete.granularity", chance.choice(("partition", "file"))),
                ("write.manifest.compression-codec", "zstd"),
                ("write.metadata.compression-codec", chance.choice(("gzip", "none"))),
            ]
        )
        self.steps.append(f"{name}={value}")
        self.sql(f"ALTER TABLE {{t}} SET TBLPROPERTIES ('{name}' = '{value}')")

    def _upgrade(self) -> None:
        self.sql("ALTER TABLE {t} SET TBLPROPERTIES ('format-version' = '3')")

    def _register_again(self) -> None:
        """The catalog forgets the table and is told of it again."""
        catalog = self.stack.connections.catalog("lake").pyiceberg
        location = self.iceberg.metadata_location
        catalog.drop_table(("default", self.name))
        catalog.register_table(("default", self.name), location)
        self.sql("REFRESH TABLE {t}")


WRITES = ("delete", "update", "merge")
METRICS = ("none", "counts", "truncate(16)", "full")
