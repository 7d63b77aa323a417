"""What texts mean: a repeated query is neither parsed nor bound again.

A text is parsed once for each principal. Its binding is reused if everything that binding depends
on is the same: the columns of its tables and their ids, and the session's catalog, schema and time
zone. A query is bound every time if it depends on the moment it was submitted, as with
CURRENT_DATE, reads a table of which its principal may not see everything, or has parameters or
views.

No data comes from here: a statement pins its tables before it looks up its binding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from seamline.connectors.cache import Cache
from seamline.gateway.catalogs.resolution import Session
from seamline.planners.plan.physical import PhysicalPlan
from seamline.sql.binder.qualify import BoundQuery, Relation, TableReference, references
from seamline.sql.parsing.statements import Query
from seamline.sql.types import Field, Row, Type, children

LENGTH_MAX = 4_000
"""Length of the longest text that is remembered; a tree takes about a hundred times as much."""
_LENGTHS_MAX = 100_000


class Meaning:
    """What one text means to one principal. Safe to share between threads.

    Attributes:
        query: The text, parsed.
        length: The length of the text.
        literal: The session and the plan of a query that needs neither a table nor an engine, if
            its request asks for none; None if it is not known to be one.
    """

    def __init__(self, query: Query, length: int) -> None:
        self.query = query
        self.length = length
        self.literal: tuple[Session, PhysicalPlan] | None = None
        self._references: tuple[str, list[TableReference]] | None = None
        self._last: tuple[tuple[Any, ...], BoundQuery] | None = None

    def references(self, zone: str) -> list[TableReference]:
        """Returns the tables that it names, as in `qualify.references`.

        Args:
            zone: The session's time zone.

        Raises:
            SeamlineError: as `qualify.references`.
        """
        last = self._references
        if last is None or last[0] != zone:
            last = self._references = (zone, references(self.query.tree, zone))
        return last[1]

    def bound(
        self,
        relations: Sequence[Relation],
        session: tuple[str, str, str],
        bind: Callable[[], BoundQuery],
    ) -> BoundQuery:
        """Returns the query as it was last bound, or binds it.

        Args:
            relations: The relations that it reads.
            session: The default catalog and schema, and the time zone.
            bind: Binds it to these.
        """
        columns = [stored for relation in relations for stored in storage(relation.columns)]
        last, key = self._last, (relations, session, columns)
        if last is not None and last[0] == key:
            return last[1]
        query = bind()
        if not query.holds_moment and not any(r.restriction for r in relations):
            self._last = (key, query)
        return query


def storage(fields: Sequence[Field]) -> Iterator[tuple[Any, ...]]:
    """Yields how columns are stored, in which two columns of one name and type may differ."""
    for field in fields:
        yield field.field_id, field.required, field.aliases, field.initial_default
        yield from _of_type(field.type)


def _of_type(type_: Type) -> Iterator[tuple[Any, ...]]:
    if isinstance(type_, Row):
        yield from storage(type_.fields)
        return
    for inside in children(type_):
        yield from _of_type(inside)


class Meanings:
    """The meanings of the latest texts. Safe to share between threads."""

    def __init__(self) -> None:
        self._known: Cache[tuple[str, str, str | None], Meaning] = Cache(
            _LENGTHS_MAX, weight=lambda meaning: meaning.length
        )

    def find(self, text: str, dialect: str | None, user: str) -> Meaning | None:
        """Returns the meaning of a text that was parsed for the user before."""
        return self._known.get((user, text, dialect))

    def remember(self, text: str, dialect: str | None, user: str, query: Query) -> Meaning:
        """Returns the meaning of a query's text, and remembers it unless it is long."""
        meaning = Meaning(query, len(text))
        if meaning.length <= LENGTH_MAX:
            self._known.put((user, text, dialect), meaning)
        return meaning
