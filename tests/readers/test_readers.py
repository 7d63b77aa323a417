"""Goal: every reader that people have sees a live table whole, exactly, and at once.

Method: one behaviour suite over many readers, on local files and in object storage. Each reader
runs in an environment of its own, configured as the documentation says, and is asked about tables
that change under it. Our own SQL says what the rows are. What a reader cannot do is declared with
its reason, and must still be so.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pathlib
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest
from support.changes import CHANGES
from support.live import LiveReaders, canonical, watched
from support.object_storage import BUCKET, object_storage
from support.shapes import SHAPES, Shape
from support.stack import Stack

from readers.catalogue import LIVE, LOCAL, OBJECTS, PLANNED, READERS, Reader
from readers.environments import Python
from readers.running import CannotReadError, RunningReader
from seamline.connectors.config import CatalogConfig
from seamline.connectors.jvm.jars import STORES, JarSet, cache_directory, fetch, spark_jars
from seamline.spark.catalog import EXTENSIONS, configuration

pytestmark = [
    pytest.mark.integration,
    pytest.mark.spark,
    pytest.mark.prove,
    pytest.mark.timeout(3600),  # environments are made when a reader is first asked for
]

RUNTIME_3_5 = JarSet(
    "iceberg-spark-3.5",
    ("org.apache.iceberg:iceberg-spark-runtime-3.5_2.12:1.11.0",),
    transitive=False,
)
SHAPE_NAMES = {
    "every type", "every type in version 3", "special numbers", "by a value",
    "by buckets and days", "with wider columns", "with a column dropped and added again",
    "partitioned later", "with position deletes", "with deletion vectors",
}  # fmt: skip
MOVING = {"a batch", "a rollback", "compaction", "expiry"}
"""What moves records between the table and its tail, or the table's files."""
READ_SHAPES = [shape for shape in SHAPES if shape.name in SHAPE_NAMES]
UPSERTS = [
    Shape("upserts", options={"partitioning": ("bucket(2, id)", "truncate(1, text)")}),
    Shape("upserts in version 3", options={"format_version": 3}),
]
"""Upsert tables whose cold files have deletes of their own, and whose tail hides more."""


class World:
    """Tables somewhere, a gateway over them, and the readers, each started when first asked for.

    Readers have no keys of their own: in object storage they are given some with the tables.
    """

    def __init__(
        self,
        storage: str,
        stack: Stack,
        live: LiveReaders,
        properties: dict[str, str],
        directory: pathlib.Path,
    ) -> None:
        self.storage = storage
        self.stack = stack
        self.live = live
        self._properties = properties
        self._directory = directory
        self._running: dict[str, RunningReader] = {}

    @property
    def readers(self) -> list[Reader]:
        """Those that read tables there."""
        return [reader for reader in READERS if self.storage in reader.storages]

    def running(self, reader: Reader) -> RunningReader:
        """The reader, started."""
        if reader.name not in self._running:
            self._running[reader.name] = RunningReader(
                reader,
                self._directory,
                {
                    "url": self.live.gateway.url,
                    "storage": self._properties if reader.own_keys else {},
                    "conf": self._spark(reader.spark) if reader.spark else {},
                },
            )
        return self._running[reader.name]

    def close(self) -> None:
        """Ends the readers."""
        for running in self._running.values():
            running.close()

    def produce(self, name: str, *records: Any) -> None:
        """Produces records, some of them with headers, and waits until all are acknowledged."""
        kinds: tuple[Any, ...] = (None, [], [("a", b"\x00\xff"), ("a", None), ("", b"")])
        headers = [kinds[number % len(kinds)] for number in range(len(records))]
        self.stack.produce(name, records, headers=headers)

    def _spark(self, version: str) -> dict[str, str]:
        """The printed settings, and the jars, so that nothing is resolved over and over."""
        url, cache = self.live.gateway.url, cache_directory(os.environ)
        if version == "3.5":
            jars = [fetch(RUNTIME_3_5, cache, print) / RUNTIME_3_5.file_names[0]]
        else:
            jars = [path for path in spark_jars(print) if "iceberg" in path.name]
        if self.storage == OBJECTS:
            bundle = STORES["s3"]
            jars.append(fetch(bundle, cache, print) / bundle.file_names[0])
        return {
            **configuration(url, name=LIVE),
            **configuration(url, name=PLANNED, planned=True),
            "spark.jars": ",".join(map(str, jars)),
            "spark.sql.extensions": EXTENSIONS,
            "spark.ui.enabled": "false",
            "spark.sql.session.timeZone": "UTC",
            "spark.sql.shuffle.partitions": "1",
        }


@contextlib.contextmanager
def _elsewhere(stack: Stack, directory: pathlib.Path) -> Iterator[tuple[Stack, dict[str, str]]]:
    """The same cluster over a warehouse in object storage, and how a reader reaches that."""
    folder = directory / "objects"
    folder.mkdir()
    with object_storage(folder) as objects:
        catalog = CatalogConfig(
            name="lake",
            type="sql",
            uri=f"sqlite:///{directory}/catalog.db",
            warehouse=f"s3://{BUCKET}/warehouse",
            properties=objects.properties,
            reader_properties=objects.reader_properties,
        )
        with stack.over(catalog, directory) as other:
            yield other, objects.properties | objects.reader_properties


@pytest.fixture(scope="module", params=[pytest.param(LOCAL, marks=pytest.mark.soak), OBJECTS])
def world(
    stack: Stack, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[World]:
    directory = tmp_path_factory.mktemp("readers")
    with contextlib.ExitStack() as block:
        properties: dict[str, str] = {}
        if request.param == OBJECTS:
            stack, properties = block.enter_context(_elsewhere(stack, directory))
        live = block.enter_context(watched(LiveReaders(stack, directory / "gateway")))
        made = World(request.param, stack, live, properties, directory)
        yield block.enter_context(contextlib.closing(made))


def record(number: int) -> dict[str, Any]:
    return {"id": number, "text": f"t{number % 5}"}


def mismatches(world: World, name: str, expected: Callable[[], int]) -> dict[str, Any]:
    """What each reader counted that was not what had been acknowledged just before."""
    found = {}
    for reader in world.readers:
        wanted = expected()
        try:
            counted: Any = world.running(reader).count(name)
        except CannotReadError as error:
            counted = str(error)
        if counted != wanted:
            found[reader.name] = (counted, wanted)
    return found


def test_the_documentation_says_what_was_run() -> None:
    text = (pathlib.Path(__file__).parents[2] / "docs" / "readers.md").read_text(encoding="utf-8")
    packages = {
        package
        for reader in READERS
        if isinstance(reader.program, Python)
        for package in reader.program.packages
        if not package.startswith("pyarrow")
    }
    versions = {package.split("==")[1] for package in packages if "==" in package}
    assert not {version for version in versions if version not in text}


# --- Whole and at once ---------------------------------------------------------------------------


@pytest.mark.soak
@pytest.mark.parametrize("others", [False, pytest.param(True, marks=pytest.mark.soak)])
def test_every_reader_counts_what_was_acknowledged_just_before(
    world: World, name: str, others: bool
) -> None:
    """At first, and after everything that is done to the table; where files are, few matter."""
    world.stack.create_topic(name, 2)
    world.stack.create_table(name, "id bigint, text varchar")
    produced = 0

    def one_more() -> int:
        nonlocal produced
        world.produce(name, record(produced))
        produced += 1
        return produced

    assert not mismatches(world, name, one_more)
    wrong = {}
    changes = (CHANGES if world.storage == OBJECTS else sorted(MOVING)) if others else ()
    for change in ("a batch", *changes, *(("a batch", "a property") if others else ())):
        CHANGES[change](world.stack, name)
        if change in MOVING:
            wrong[f"at once after {change}"] = mismatches(world, name, lambda: produced)
        if others or change not in MOVING:
            wrong[f"after {change}"] = mismatches(world, name, one_more)
    assert not {when: found for when, found in wrong.items() if found}


@pytest.mark.soak
def test_no_reader_falls_behind_while_batches_land(world: World, name: str) -> None:
    """A statement sees all that was acknowledged before it, whatever is committed meanwhile."""
    world.stack.create_topic(name, 2)
    world.stack.create_table(name, "id bigint, text varchar")
    acknowledged = sent = 0
    stop = threading.Event()
    failures: list[BaseException] = []

    def work(step: Callable[[], None]) -> threading.Thread:
        def loop() -> None:
            try:
                while not stop.is_set():
                    step()
            except BaseException as error:  # noqa: BLE001 - reported when all have ended
                failures.append(error)

        return threading.Thread(target=loop)

    def produce() -> None:
        nonlocal acknowledged, sent
        sent += 3
        world.produce(name, *map(record, range(sent - 3, sent)))
        acknowledged = sent

    threads = [work(produce), work(lambda: [*world.stack.tier(name)].clear())]
    for thread in threads:
        thread.start()
    wrong = []
    try:
        for _ in range(3):
            for reader in world.readers:
                before = acknowledged
                found = world.running(reader).count(name)
                if not before <= found <= sent:
                    wrong.append((reader.name, before, found, sent))
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert not failures, failures[0]
    assert not wrong


# --- Exactly -------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True)
class Known:
    """A table, and its rows as our own SQL gives them."""

    name: str
    columns: list[str]
    rows: list[tuple[Any, ...]]

    def as_given_by(self, reader: Reader) -> list[tuple[Any, ...]]:
        """The rows as that reader is to give them."""
        rows = (dict(zip(self.columns, row, strict=True)) for row in self.rows)
        return sorted(map(reader.given, rows), key=repr)


@pytest.fixture(scope="module")
def known(world: World) -> dict[str, Known]:
    """Tables by their shape, made when first asked for."""
    return {}


def make(world: World, name: str, shape: Shape) -> Known:
    cold, hot = shape.rows
    world.stack.create_topic(name, 2)
    world.stack.create_table(name, shape.columns, **shape.options)
    world.produce(name, *map(shape.record, range(cold)))
    world.stack.tier(name)
    for deed in shape.between:
        assert isinstance(deed, str)
        world.stack.spark.sql(deed.format(t=f"lake.default.{name}")).collect()
    world.produce(name, *map(shape.record, range(cold, cold + hot)))
    table = world.live.load(name)
    columns = [field.name for field in table.schema().fields]
    names = ", ".join(f'"{column}"' for column in columns)
    rows = world.live.gateway.rows(f"SELECT {names} FROM {name}", "duckdb")
    return Known(name, columns, canonical(rows))


def make_upserts(world: World, name: str, shape: Shape) -> Known:
    """An upsert table whose batches and tail insert, replace, remove, and bring back."""
    world.stack.create_topic(name, 2)
    columns = "id bigint, text varchar, n decimal(12, 2)"
    definition: dict[str, Any] = {"mode": "upsert", "primary_key": ("id",), "key": "id"}
    world.stack.create_table(name, columns, **definition, **shape.options)
    state: dict[int, tuple[int, str, str]] = {}

    def happen(ids: Iterable[int], text: str | None) -> None:
        for partition in (0, 1):
            own = [i for i in ids if i % 2 == partition]
            values = [text and {"id": i, "text": f"{text}{i % 3}", "n": f"{i}.25"} for i in own]
            world.stack.produce(name, values, partition=partition, keys=[str(i) for i in own])
        for i in ids:
            state.pop(i, None)
            if text is not None:
                state[i] = (i, f"{text}{i % 3}", f"{i}.25")

    happen(range(60), "a")
    world.stack.tier(name)
    happen(range(0, 30, 2), "b")
    happen(range(40, 50), None)
    world.stack.tier(name)
    happen(range(60, 75), "c")
    for text in ("d", "e"):  # a key twice
        happen(range(0, 45, 3), text)
    happen((*range(0, 60, 7), 70, 1000), None)
    happen((7, 42, 70), "f")
    table = world.live.load(name)
    found = [field.name for field in table.schema().fields]
    listed = ", ".join(f'"{column}"' for column in found)
    rows = world.live.gateway.rows(f"SELECT {listed} FROM {name}", "duckdb")
    assert canonical([row[:3] for row in rows]) == canonical(list(state.values()))
    return Known(name, found, canonical(rows))


@pytest.mark.one_in(prove=192)
@pytest.mark.parametrize("reader", READERS, ids=str)
@pytest.mark.parametrize("shape", [*READ_SHAPES, *UPSERTS], ids=str)
def test_every_reader_gives_the_same_rows(
    world: World, known: dict[str, Known], name: str, shape: Shape, reader: Reader
) -> None:
    if shape.name not in known:
        known[shape.name] = (make_upserts if shape in UPSERTS else make)(world, name, shape)
    table = known[shape.name]
    if world.storage not in reader.storages:
        return
    running = world.running(reader)
    if not reader.reads(shape.name, world.storage):
        with pytest.raises(CannotReadError):
            running.rows(table.name, table.columns)
        return
    rows = running.rows(table.name, table.columns)
    expected = table.as_given_by(reader)
    differing = [
        {c: pair for c, *pair in zip(table.columns, *both, strict=True) if pair[0] != pair[1]}
        for both in zip(rows, expected, strict=True)
        if both[0] != both[1]
    ]
    assert not differing, (len(differing), differing[0])
    assert len(rows) == len(table.rows) > 0


@pytest.mark.soak
@pytest.mark.parametrize("reader", [r for r in READERS if r.gaps], ids=str)
def test_a_gap_that_is_declared_is_still_there(
    world: World, known: dict[str, Known], name: str, reader: Reader
) -> None:
    shape = next(s for s in READ_SHAPES if s.name == "every type")
    if shape.name not in known:
        known[shape.name] = make(world, name, shape)
    table = known[shape.name]
    if world.storage not in reader.storages:
        return
    rows = world.running(reader).rows(table.name, table.columns)
    for gap in reader.gaps:
        less = dataclasses.replace(reader, gaps=tuple(g for g in reader.gaps if g is not gap))
        assert rows != table.as_given_by(less), gap.reason
