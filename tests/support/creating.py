"""CREATE TABLE over a real catalog, and a log in memory in which things happen meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fakes.memory import MemoryLog

from seamline.connectors.protocols.deadlines import Deadline
from seamline.errors import SeamlineError
from seamline.gateway.catalogs import resolution
from seamline.gateway.catalogs.connections import Connections
from seamline.gateway.commands import alterations, creation, shows
from seamline.gateway.commands.rows import Rows
from seamline.gateway.commands.tables import is_unified
from seamline.gateway.config.model import Config
from seamline.gateway.deadline import no_deadline
from seamline.seam.log import LogBounds
from seamline.sql.locations import locate_errors_at
from seamline.sql.parsing import parse
from seamline.sql.parsing.statements import AlterTable, Comment, CreateTable, DropTable, Show


class Meanwhile(MemoryLog):
    """A log in which something happens when its bounds are asked for."""

    def __init__(self, happens: Callable[[], object]) -> None:
        super().__init__()
        self.create_topic("bids", 1)
        self.asked = 0
        self._happens = happens

    def bounds(
        self, topics: Sequence[str], isolation: str, deadline: Deadline
    ) -> dict[str, LogBounds]:
        """See `HotLog.bounds`."""
        self.asked += 1
        self._happens()
        return super().bounds(topics, isolation, deadline)


class World(Connections):
    """A real catalog, and a cluster in memory."""

    def __init__(self, config: Config, happens: Callable[[], object] = int) -> None:
        super().__init__(config)
        self.memory = Meanwhile(happens)

    def log(self, name: str) -> MemoryLog:  # type: ignore[override]
        """See `Connections.log`."""
        return self.memory

    def run(self, sql: str, deadline: Deadline | None = None) -> str:
        """What a statement ends with: a code, or `done`."""
        try:
            self._rows(sql, deadline or no_deadline())
        except SeamlineError as error:
            return error.code.name
        return "done"

    def notes(self, sql: str) -> list[str]:
        """What a statement says of the records.

        Raises:
            SeamlineError: what it fails with.
        """
        found = self._rows(sql, no_deadline())
        return [row[0] for row in found.rows if found.output[0].name == "note"]

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """What a statement answers.

        Raises:
            SeamlineError: what it fails with.
        """
        return self._rows(sql, no_deadline()).rows

    def _rows(self, sql: str, deadline: Deadline) -> Rows:
        statement, session = parse.parse(sql), resolution.session(self.config)
        with locate_errors_at(getattr(statement, "location", None)):
            match statement:
                case CreateTable():
                    return creation.create_table(self, statement, session, deadline)
                case AlterTable():
                    return creation.alter_table(self, statement, session, deadline)
                case DropTable():
                    return creation.drop_table(self, statement, session)
                case Comment():
                    return alterations.comment(self, statement, session)
                case Show():
                    return shows.show(self, statement, session, deadline)
        raise AssertionError(statement)

    def is_unified(self, *parts: str) -> bool:
        """Whether a statement reads a unified table by a name."""
        return is_unified(self, resolution.resolve(parts, resolution.session(self.config), self))


def create(name: str, *, unless: bool = False, version: int = 2, topic: str = "bids") -> str:
    """The statement; `unless` it exists."""
    condition = "IF NOT EXISTS " if unless else ""
    options = f"topic = '{topic}', format_version = {version}"
    return f"CREATE TABLE {condition}{name} (id bigint) WITH ({options})"
