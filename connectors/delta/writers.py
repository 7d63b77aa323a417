"""Finds out who fills a Delta table, from the transactions of its commits.

A finding proposes how to adopt the table; it decides nothing by itself.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import uuid
from collections.abc import Iterator, Mapping

from seamline.connectors.delta.boundaries import (
    APP_ID,
    PROVIDERS,
    TRANSACTION,
    KafkaDeltaIngest,
    SparkStreamingDelta,
)
from seamline.connectors.iceberg.boundaries.progress_files import OwnFiles, read_text
from seamline.connectors.iceberg.boundaries.writers import SPARK_STREAMING, Writer
from seamline.errors import ADOPTION_REFUSED, SeamlineError
from seamline.seam.table import TableState

_APP, _CHECKPOINT = "app-id", "checkpoint"
_CHECKPOINTS = ("_checkpoint", "_checkpoints")
"""Folders of a table in which queries often keep their checkpoints."""

KAFKA_DELTA_INGEST = Writer(
    "kafka-delta-ingest",
    KafkaDeltaIngest.name,
    columns={
        "meta.kafka.partition": "partition",
        "meta.kafka.offset": "offset",
        "meta.kafka.topic": "topic",
    },
    struct="meta",
    needs_values=True,
)
WRITERS = {writer.provider: writer for writer in (KAFKA_DELTA_INGEST, SPARK_STREAMING)}


@dataclasses.dataclass(frozen=True, slots=True)
class Filler:
    """A writer of one table."""

    writer: Writer
    options: Mapping[str, str] = dataclasses.field(default_factory=dict, hash=False)


def filler_of(table: OwnFiles, provider: str | None, options: Mapping[str, str]) -> Filler:
    """Returns who fills a table, and the options for its provider; given ones take precedence.

    Raises:
        SeamlineError: ADOPTION_REFUSED when the table's transactions belong to no known writer, or
            to several.
    """
    applications = dict.fromkeys(_applications(table.state))
    of_provider = [one for one in applications if provider in (None, one.writer.provider)]
    if options.get(_APP) or options.get(_CHECKPOINT) or not of_provider:
        kind = provider or _provider_with(options)
        if kind is None:
            raise _refused(table.state, "has no transaction of a known writer")
        return Filler(WRITERS[kind], options)
    if len(of_provider) > 1:
        named = ", ".join(sorted(map(_described, of_provider)))
        raise _refused(table.state, f"is filled by several: {named}")
    (one,) = of_provider
    if one.writer is SPARK_STREAMING:
        checkpoint = _checkpoint(table, one.name)
        return Filler(one.writer, {**({_CHECKPOINT: checkpoint} if checkpoint else {}), **options})
    return Filler(one.writer, {**({_APP: one.name} if one.name != APP_ID else {}), **options})


@dataclasses.dataclass(frozen=True, slots=True)
class _Application:
    """The application of a transaction: a writer, and the name that it uses."""

    writer: Writer
    name: str


def _applications(state: TableState) -> Iterator[_Application]:
    """Yields the applications of all known versions, newest first."""
    for snapshot in state.ancestors(state.current_snapshot_id):
        for key in snapshot.summary:
            if key.startswith(TRANSACTION):
                yield from _application(key.removeprefix(TRANSACTION))


def _application(name: str) -> Iterator[_Application]:
    with contextlib.suppress(ValueError):
        yield _Application(SPARK_STREAMING, str(uuid.UUID(name)))
        return
    front, _, partition = name.rpartition("-")
    if front and partition.isdecimal():
        yield _Application(KAFKA_DELTA_INGEST, front)


def _described(one: _Application) -> str:
    return f"{one.writer.name} as {one.name}"


def _provider_with(options: Mapping[str, str]) -> str | None:
    """Returns the provider that the given options belong to, or None."""
    if _CHECKPOINT in options:
        return SparkStreamingDelta.name
    return KafkaDeltaIngest.name if _APP in options else None


def _checkpoint(table: OwnFiles, query: str) -> str | None:
    """Returns the checkpoint of a query if it is in the table's folder, else None."""
    for folder in _CHECKPOINTS:
        checkpoint = f"{table.state.location}/{folder}"
        with contextlib.suppress(SeamlineError, ValueError, LookupError, TypeError):
            if json.loads(read_text(table, f"{checkpoint}/metadata"))["id"] == query:
                return checkpoint
    return None


def _refused(state: TableState, problem: str) -> SeamlineError:
    return SeamlineError(
        ADOPTION_REFUSED,
        f"the Delta table {state.display_name} {problem}",
        hint=f"Name its writer: --boundary with one of {', '.join(PROVIDERS)}, and --option "
        f"{_APP}=… or --option {_CHECKPOINT}=….",
    )
