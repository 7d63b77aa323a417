"""What boundary providers share: the table that they describe, and how offsets become a boundary.

A provider is a class with a name, a trust level, and a method from a snapshot to the first offsets
that the snapshot does not hold. If the snapshot alone decides the answer, it is cached for good.
"""

from __future__ import annotations

import abc
import contextlib
import dataclasses
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Generic, Protocol, TypeVar

from pyiceberg.manifest import DataFile
from pyiceberg.table import Table as PyTable
from pyiceberg.table import TableProperties

from seamline.connectors.cache import Cache
from seamline.connectors.iceberg.boundaries.progress_files import OwnFiles
from seamline.connectors.iceberg.pruning import Pruner
from seamline.errors import BOUNDARY_INVALID, BOUNDARY_NOT_TRUSTED, SeamlineError
from seamline.seam.binding import PROPERTY_PREFIX, TopicBinding
from seamline.seam.boundary import HINT, Boundary
from seamline.seam.offsets import Offsets
from seamline.seam.table import Snapshot, TableState

if TYPE_CHECKING:
    from seamline.connectors.iceberg.boundaries.kafka_connect import ControlTopics
    from seamline.connectors.iceberg.boundaries.positions import PositionReader
    from seamline.connectors.protocols.hot_logs import HotLog

OPTION_PREFIX = f"{PROPERTY_PREFIX}boundary-"
APPEND = "append"
_DECIDING = (PROPERTY_PREFIX, TableProperties.DEFAULT_NAME_MAPPING)
"""Beginnings of the properties that may change what a provider says about a snapshot."""


@dataclasses.dataclass(frozen=True, slots=True)
class Answer:
    """What a provider says about a snapshot.

    Attributes:
        next: The first offsets that the snapshot does not hold.
        has_others: Whether it has rows that are not records of the log.
    """

    next: Offsets
    has_others: bool = False


Answers = Cache[tuple[object, ...], tuple[Answer | None]]
"""Cached answers of providers, by the snapshot and whatever of its table may change them."""


@dataclasses.dataclass(frozen=True, slots=True)
class Adopted:
    """A table that another writer fills, as its provider sees it, whatever its format.

    Attributes:
        state: The table's metadata.
        binding: The topic behind it.
        log: Returns the log of the binding's cluster; raises if there is none.
        answers: The cached answers.
    """

    state: TableState
    binding: TopicBinding
    log: Callable[[], HotLog]
    answers: Answers

    def option(self, name: str) -> str | None:
        """Returns an option of the provider: the property `seamline.boundary-<name>`."""
        return self.state.properties.get(f"{OPTION_PREFIX}{name}")

    @property
    def start(self) -> Offsets:
        """Where the table begins, for partitions from which it holds no records.

        Raises:
            SeamlineError: BOUNDARY_INVALID.
        """
        return start_of(self.state)


class PlannedFile(Protocol):
    """A data file of a scan."""

    @property
    def file(self) -> DataFile:
        """The file, as its manifest describes it."""


class ScannedTable(OwnFiles, Protocol):
    """An Iceberg table whose files can be planned."""

    @property
    def iceberg(self) -> PyTable:
        """The table as PyIceberg has it."""

    def tasks(self, snapshot_id: int, pruner: Pruner) -> Sequence[PlannedFile]:
        """Returns the files that a scan of a snapshot must read."""


@dataclasses.dataclass(frozen=True, slots=True)
class AdoptedIceberg(Adopted):
    """An Iceberg table that another writer fills."""

    table: ScannedTable
    positions: PositionReader
    reports: ControlTopics


A = TypeVar("A", bound=Adopted)


def start_of(state: TableState) -> Offsets:
    """Returns where an adopted table begins: its owner's option `start`, or offset 0 without it.

    Raises:
        SeamlineError: BOUNDARY_INVALID.
    """
    text = state.properties.get(f"{OPTION_PREFIX}start")
    if text is None:
        return Offsets()
    with invalid(f"the property {OPTION_PREFIX}start of {state.display_name}"):
        return Offsets.from_json(json.loads(text))


class Provider(abc.ABC, Generic[A]):
    """A `BoundaryProvider` over one adopted table.

    Attributes:
        name: Its name in table properties.
        trust: `exact`, `derived` or `hint`.
        is_lasting: Whether its answer about a snapshot never changes.
    """

    name: ClassVar[str]
    trust: ClassVar[str]
    is_lasting: ClassVar[bool] = True

    def __init__(self, adopted: A) -> None:
        self.adopted = adopted

    @property
    def start(self) -> Offsets:
        """See `BoundaryProvider.start`."""
        return self.adopted.start

    @abc.abstractmethod
    def answer(self, snapshot: Snapshot) -> Answer | None:
        """Returns what a snapshot holds; None if the snapshot itself does not say.

        Raises:
            SeamlineError: See `BoundaryProvider.boundary`.
        """

    def wrote(self, snapshot: Snapshot) -> bool:
        """See `BoundaryProvider.wrote`."""
        return snapshot.operation == APPEND

    def boundary(self, state: TableState, snapshot: Snapshot) -> Boundary | None:
        """See `BoundaryProvider.boundary`."""
        self._require_trust()
        answer = self._answer_of(state, snapshot)
        if answer is None:
            return None
        binding = self.adopted.binding
        return Boundary(
            snapshot_id=snapshot.snapshot_id,
            cluster_id=binding.cluster_id or "",
            topic=binding.topic,
            topic_id=binding.topic_id or "",
            isolation=binding.isolation,
            start=answer.next,
            next=answer.next,
            schema_id=snapshot.schema_id,
            format=str(binding.encoding),
            on_error=binding.on_error,
            foreign_change_id=snapshot.snapshot_id if answer.has_others else None,
            provider=self.name,
            trust=self.trust,
        )

    def _answer_of(self, state: TableState, snapshot: Snapshot) -> Answer | None:
        if not self.is_lasting:
            return self.answer(snapshot)
        own = sorted((k, v) for k, v in state.properties.items() if k.startswith(_DECIDING))
        # in Delta tables, a snapshot's id is the number of a version, which may be used again
        of = (state.uuid, snapshot.snapshot_id, snapshot.timestamp_ms, state.current_schema_id)
        key = (*of, *own)
        (answer,) = self.adopted.answers.get_or_make(key, lambda: (self.answer(snapshot),))
        return answer

    def _require_trust(self) -> None:
        if self.trust != HINT or self.adopted.option("trust") == HINT:
            return
        raise SeamlineError(
            BOUNDARY_NOT_TRUSTED,
            f"the boundary of {self.adopted.state.display_name} is only a hint, from {self.name}",
        )


@contextlib.contextmanager
def invalid(what: str) -> Iterator[None]:
    """Turns parsing errors into an error that names what cannot be parsed.

    Raises:
        SeamlineError: BOUNDARY_INVALID.
    """
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise SeamlineError(BOUNDARY_INVALID, f"{what} cannot be parsed: {error!r}") from error


def summary_of(snapshot: Snapshot, prefix: str) -> Mapping[str, str]:
    """Returns the entries of a snapshot's summary with a prefix, with that prefix removed."""
    return {
        name.removeprefix(prefix): value
        for name, value in snapshot.summary.items()
        if name.startswith(prefix)
    }
