"""Tiering is exactly once, whatever happens in the middle of a batch.

Goal: after every fault each (partition, offset) of the log is in the table once, with the value
that was produced, and the table's boundary is the log's end.
Method: real processes killed at each step of the protocol, also between data files and commit (the
catalog is held so that the commit waits); several tierers at one boundary; foreign commits, schema
changes, rollbacks and a recreated topic in the middle of a batch. The oracle is a consumer.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import shutil
import signal
import threading
from collections.abc import Callable

import pyarrow as pa
import pytest
from support import programs
from support.gateway import Gateway
from support.records import assert_tiered_exactly_once
from support.stack import Stack
from support.tierers import At, Interrupted
from support.waiting import wait_until

from seamline.connectors.spark.sessions import Sessions, connect
from seamline.connectors.spark.tiering import SparkTierTable
from seamline.errors import (
    COMMIT_CONFLICT,
    TOPIC_RECREATED,
    SeamlineError,
)
from seamline.gateway.deadline import no_deadline
from seamline.gateway.tiering.step import tier_once
from seamline.seam.binding import TopicBinding
from seamline.seam.boundary import TAG, boundary_of
from seamline.seam.tiering import Batch, Outcome, Step, next_batch

pytestmark = [
    pytest.mark.integration,
    pytest.mark.spark,
    pytest.mark.usefixtures("tier_engine"),
    pytest.mark.one_in(test=2, prove=1),
]

COLUMNS = "id bigint, text varchar"
RECORDS = 60


@pytest.fixture
def table(stack: Stack, name: str) -> str:
    """A table with one batch in it and as many records waiting."""
    stack.create_topic(name, 2)
    stack.create_table(name, COLUMNS)
    produce(stack, name, 0)
    stack.tier(name)
    produce(stack, name, RECORDS)
    return name


def produce(stack: Stack, name: str, first: int, count: int = RECORDS) -> None:
    stack.produce(name, [{"id": i, "text": f"t{i}"} for i in range(first, first + count)])


def tier(stack: Stack, name: str, **events: Callable[[], object]) -> Step:
    """One step with something happening in the middle of it."""
    at = {At(step): event for step, event in events.items()}
    table = Interrupted(stack.tier_table(name), at)
    return tier_once(table, stack.connections.log("default"), no_deadline(), records_max=1_000_000)


def batch_of(stack: Stack, name: str) -> Batch:
    """The batch that would be next."""
    state = stack.load(name).state
    before = boundary_of(state, state.current_snapshot_id)
    binding = TopicBinding.from_properties(state.properties)
    assert binding is not None
    found = next_batch(state, binding, before, stack.bounds(name), records_max=1_000_000)
    assert found is not None
    return found


def head(stack: Stack, name: str) -> int:
    found: int = stack.load(name).state.current_snapshot_id
    return found


# --- Killed --------------------------------------------------------------------------------------


@pytest.mark.one_in(prove=6)
@pytest.mark.parametrize("at", list(At), ids=lambda at: at.value)
def test_killed_at_a_step(stack: Stack, gateway: Gateway, table: str, at: At) -> None:
    before = head(stack, table)
    done = programs.run(
        programs.module("killed_tierer", table, at.value, stack.tier_engine), stack.environment
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    landed = at in {At.COMMITTED, At.CHECKED, At.KEPT}
    assert (head(stack, table) != before) == landed
    produce(stack, table, 2 * RECORDS)
    steps = stack.tier(table)
    assert steps[0].offsets == (RECORDS if landed else 2 * RECORDS)
    assert_tiered_exactly_once(stack, gateway, table)
    state = stack.load(table).state
    assert state.refs[TAG].snapshot_id == state.current_snapshot_id


@pytest.mark.soak
def test_killed_between_data_files_and_commit_and_its_folder_wiped(
    stack: Stack, gateway: Gateway, table: str, scratch: pathlib.Path
) -> None:
    """Python, the JVM and its workers die at once; the next one starts with an empty folder."""
    before, files, metadata = (
        head(stack, table),
        stack.data_files(table),
        stack.metadata_files(table),
    )
    folder = scratch / "first"
    environment = own_spark(stack, folder)
    command = programs.seamline("tier", table, "--once", "--engine", "spark")
    with (
        stack.unwritable_catalog(),
        programs.running(command, environment, scratch / "first.log") as process,
    ):
        wait_until(
            lambda: stack.metadata_files(table) - metadata or process.poll() is not None,
            120,
            "the commit to wait",
        )
        assert process.poll() is None, (scratch / "first.log").read_text()
        programs.kill(process)
        assert stack.data_files(table) - files
    assert head(stack, table) == before
    shutil.rmtree(folder)
    produce(stack, table, 2 * RECORDS)
    done = programs.run(command, own_spark(stack, scratch / "second"))
    assert done.returncode == 0, done.stderr
    assert f"{2 * RECORDS} offsets" in done.stderr
    assert_tiered_exactly_once(stack, gateway, table)


def own_spark(stack: Stack, folder: pathlib.Path) -> dict[str, str]:
    """The environment of a program that starts a Spark of its own, in that folder."""
    environment = {**stack.environment, "SEAMLINE_STATE_DIRECTORY": str(folder)}
    del environment["SEAMLINE_SPARK__REMOTE"]
    return environment


@pytest.mark.soak
def test_killed_while_spark_goes_on_and_another_has_started(
    stack: Stack, gateway: Gateway, table: str, scratch: pathlib.Path
) -> None:
    """The reply is lost for good: Spark commits for a driver that is gone, beside the next one."""
    metadata = stack.metadata_files(table)
    command = programs.seamline("tier", table, "--once")
    with (
        programs.running(command, stack.environment, scratch / "first.log") as first,
        programs.running(command, stack.environment, scratch / "second.log") as second,
    ):
        with stack.unwritable_catalog():
            wait_until(lambda: len(stack.metadata_files(table) - metadata) == 2, 60)
            programs.kill(first)
        second.wait(60)
        assert second.returncode == 0, (scratch / "second.log").read_text()
    produce(stack, table, 2 * RECORDS)
    stack.tier(table)
    assert_tiered_exactly_once(stack, gateway, table)


@pytest.mark.soak
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_stopped_with_its_shells_job_the_batch_in_hand_lands(
    stack: Stack, gateway: Gateway, table: str, scratch: pathlib.Path, number: signal.Signals
) -> None:
    """A shell's `kill %1` and a closed terminal signal every process of the group."""
    metadata = stack.metadata_files(table)
    log = scratch / "log"
    command = programs.seamline("tier", table, "--interval", "1h")
    with programs.running(command, stack.environment, log) as process:
        with stack.unwritable_catalog():
            wait_until(lambda: stack.metadata_files(table) - metadata, 180, "the commit to wait")
            os.killpg(process.pid, number)
            wait_until(lambda: "stopping after the current batch" in log.read_text(), 120)
            assert process.poll() is None
        assert process.wait(60) == 0, log.read_text()
    assert "Exception" not in log.read_text()
    assert_tiered_exactly_once(stack, gateway, table)


# --- Two at once ---------------------------------------------------------------------------------


def test_two_tierers_from_one_boundary(stack: Stack, gateway: Gateway, table: str) -> None:
    """Each has planned the same batch before either writes it; one wins, then both continue.

    Both are on Spark, or one is, and the other writes its batches itself.
    """
    together = threading.Barrier(2, timeout=60)
    outcomes: list[Step | SeamlineError] = []

    def run(engine: str) -> None:
        spark = connect(stack.spark_url)
        try:
            on_spark = spark_table(stack, table, spark)
            inner = on_spark if engine == "spark" else stack.tier_table(table)
            for events in ({At.PROBED: together.wait}, {}, {}, {}):
                with contextlib.suppress(threading.BrokenBarrierError):
                    outcomes.append(one_step(stack, Interrupted(inner, events)))
        finally:
            spark.stop()

    engines = ("spark", stack.tier_engine)
    threads = [threading.Thread(target=run, args=(engine,)) for engine in engines]
    for thread in threads:
        thread.start()
    produce(stack, table, 2 * RECORDS)
    for thread in threads:
        thread.join()
    refused = [o for o in outcomes if isinstance(o, SeamlineError)]
    assert refused
    assert {error.code for error in refused} == {COMMIT_CONFLICT}
    stack.tier(table)
    assert_tiered_exactly_once(stack, gateway, table)


def spark_table(stack: Stack, name: str, spark: object) -> SparkTierTable:
    return SparkTierTable(
        Sessions.beside(spark),
        stack.connections.catalog("lake"),
        ("default", name),
        stack.connections.log("default"),
        stack.connections.cluster("default").config,
        tasks_min=2,
    )


def one_step(stack: Stack, table: Interrupted) -> Step | SeamlineError:
    try:
        log = stack.connections.log("default")
        return tier_once(table, log, no_deadline(), records_max=1_000_000)
    except SeamlineError as error:
        return error


def test_two_marks_from_one_boundary(stack: Stack, gateway: Gateway, name: str) -> None:
    """A range without rows is published by one of two tierers; the other has written nothing."""
    stack.create_topic(name, 1)
    stack.create_table(name, COLUMNS)
    stack.transact(name, [{"id": 1, "text": "aborted"}], commit=False, partition=0)
    inner = stack.tier_table(name)
    with pytest.raises(SeamlineError) as caught:
        tier(stack, name, probed=lambda: inner.commit_boundary(batch_of(stack, name)))
    assert caught.value.code is COMMIT_CONFLICT
    assert stack.tier(name)[0].outcome is Outcome.IDLE
    assert_tiered_exactly_once(stack, gateway, name)


def test_a_batch_sent_again_is_refused(stack: Stack, gateway: Gateway, table: str) -> None:
    """Also after others have continued, and after what it started from has expired."""
    batch = batch_of(stack, table)
    inner = stack.tier_table(table)
    inner.commit_rows(batch)
    produce(stack, table, 2 * RECORDS)
    for again in (lambda: None, lambda: stack.tier(table), lambda: expire(stack, table)):
        again()
        with pytest.raises(SeamlineError) as caught:
            inner.commit_rows(batch)
        assert caught.value.code is COMMIT_CONFLICT, caught.value
    assert_tiered_exactly_once(stack, gateway, table)


# --- Foreign commits -----------------------------------------------------------------------------


def append(stack: Stack, name: str) -> None:
    """Rows of a foreign writer, which come from no log."""
    table = stack.load(name).iceberg
    rows = pa.table({"id": pa.array([-1, -2], pa.int64()), "text": ["foreign", "foreign"]})
    table.append(rows)


def compact(stack: Stack, name: str) -> None:
    stack.maintain(name, rewrite_manifests=False, expire=False)


def merge_manifests(stack: Stack, name: str) -> None:
    stack.maintain(name, compact=False, expire=False)


def expire(stack: Stack, name: str) -> None:
    stack.maintain(name, compact=False, rewrite_manifests=False)


@pytest.mark.one_in(prove=4)
@pytest.mark.parametrize("foreign", [append, compact, merge_manifests])
@pytest.mark.parametrize("when", ["before", "probed", "committed"])
def test_foreign_commit(
    stack: Stack,
    gateway: Gateway,
    table: str,
    foreign: Callable[[Stack, str], None],
    when: str,
) -> None:
    if when == "before":
        foreign(stack, table)
        step = tier(stack, table)
    else:
        step = tier(stack, table, **{when: lambda: foreign(stack, table)})
    assert step.outcome is Outcome.ROWS
    assert stack.tier(table)[0].outcome is Outcome.IDLE
    assert_tiered_exactly_once(stack, gateway, table)
    rows = gateway.rows(f"SELECT count(*) FROM {table} WHERE text = 'foreign'")
    assert rows == [(2 if foreign is append else 0,)]


@pytest.mark.soak
@pytest.mark.parametrize("version", [2, 3])
def test_foreign_deletes_by_position_in_the_middle_of_a_batch(
    stack: Stack, gateway: Gateway, table: str, version: int
) -> None:
    """Iceberg takes them for a conflict: the batch is written aside, and lands all the same."""
    append(stack, table)
    name = f"lake.default.{table}"
    for setting in (f"'format-version' = '{version}'", "'write.delete.mode' = 'merge-on-read'"):
        stack.spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ({setting})").collect()
    delete = f"DELETE FROM {name} WHERE id = -1"
    step = tier(stack, table, probed=lambda: stack.spark.sql(delete).collect())
    assert step.outcome is Outcome.ROWS
    assert_tiered_exactly_once(stack, gateway, table)
    assert gateway.rows(f"SELECT id FROM {table} WHERE text = 'foreign'") == [(-2,)]


@pytest.mark.soak
def test_expiry_in_the_middle_of_a_batch(stack: Stack, gateway: Gateway, table: str) -> None:
    """The newest mark moves on to the foreign head; the batch starts over from there."""

    def others() -> None:
        append(stack, table)
        expire(stack, table)

    with pytest.raises(SeamlineError) as caught:
        tier(stack, table, probed=others)
    assert caught.value.code is COMMIT_CONFLICT
    assert stack.tier(table)[0].outcome is Outcome.ROWS
    assert_tiered_exactly_once(stack, gateway, table)


@pytest.mark.soak
def test_a_snapshot_that_has_expired_is_no_place_to_start_from(
    stack: Stack, gateway: Gateway, table: str
) -> None:
    def others_go_on() -> None:
        stack.tier(table)
        expire(stack, table)

    with pytest.raises(SeamlineError) as caught:
        tier(stack, table, probed=others_go_on)
    assert caught.value.code is COMMIT_CONFLICT
    assert_tiered_exactly_once(stack, gateway, table)


@pytest.mark.soak
def test_rollback_in_the_middle_of_a_batch(stack: Stack, gateway: Gateway, table: str) -> None:
    """The batch would start above the boundary that the rollback has brought back."""
    state = stack.load(table).state
    parent = state.snapshots[state.current_snapshot_id].parent_id
    back = f"CALL lake.system.rollback_to_snapshot('default.{table}', {parent})"
    with pytest.raises(SeamlineError) as caught:
        tier(stack, table, probed=lambda: stack.spark.sql(back).collect())
    assert caught.value.code is COMMIT_CONFLICT
    assert head(stack, table) == parent
    stack.tier(table)
    assert_tiered_exactly_once(stack, gateway, table)


@pytest.mark.soak
def test_rename_in_the_middle_of_a_batch(stack: Stack, gateway: Gateway, table: str) -> None:
    """The rows were decoded with a schema that is no longer the table's: nothing of them stays."""

    def rename(old: str, new: str) -> None:
        with stack.load(table).iceberg.update_schema() as update:
            update.rename_column(old, new)

    before = head(stack, table)
    with pytest.raises(SeamlineError) as caught:
        tier(stack, table, probed=lambda: rename("text", "words"))
    assert caught.value.code is COMMIT_CONFLICT
    assert head(stack, table) == before
    rename("words", "text")
    stack.tier(table)
    assert_tiered_exactly_once(stack, gateway, table)


def test_topic_created_again_in_the_middle_of_a_batch(
    stack: Stack, gateway: Gateway, table: str
) -> None:
    """Records of the new log, at the offsets of the old one, must not pass for the old one's."""

    def recreate() -> None:
        stack.recreate_topic(table, 2)
        produce(stack, table, 1000, 10 * RECORDS)

    before, rows = head(stack, table), gateway.rows(f'SELECT count(*) FROM "{table}$cold"')
    with pytest.raises(SeamlineError) as caught:
        tier(stack, table, probed=recreate)
    assert caught.value.code is TOPIC_RECREATED
    assert head(stack, table) == before
    assert gateway.rows(f'SELECT count(*) FROM "{table}$cold"') == rows
    with pytest.raises(SeamlineError) as caught:
        stack.tier(table)
    assert caught.value.code is TOPIC_RECREATED
