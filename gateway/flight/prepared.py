"""Prepared statements: their columns and parameters described, their values kept until they run.

A statement is described by the gateway's own DESCRIBE OUTPUT and INPUT, so a description costs a
plan and reads no rows; of what only lists something, such as SHOW, the columns are found by running
it. A prepared statement belongs to whoever prepared it, and is forgotten when it is not used.
"""

from __future__ import annotations

import dataclasses
import secrets
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from sqlglot import exp

from seamline.connectors.cache import FairCache
from seamline.errors import (
    INVALID_PARAMETERS,
    PREPARED_STATEMENT_NOT_FOUND,
    STATEMENT_NOT_ALLOWED,
    SeamlineError,
)
from seamline.gateway.flight.running import NO_COLUMNS, Call, Running
from seamline.sql import parse, statements, types
from seamline.sql.statements import CreateTableAs, Execute, Explain, Insert, Query
from seamline.sql.types import Type

KEPT_S = 3600.0
"""How long a prepared statement that is not used is kept."""
_KEPT_BYTES_MAX = 64 << 20
"""What all of them may hold, texts and values; whoever holds most loses those first that he used
least."""
_EACH_BYTES = 1000
_NAME = "p"


@dataclasses.dataclass(frozen=True, slots=True)
class Description:
    """What is known of a statement before it runs.

    Attributes:
        is_update: Whether it changes something, and has no rows.
        columns: Its columns; none of an update.
        parameters: Its parameters, by place; text where nothing says of which type one is.
        takes_names: Whether its parameters have names, and no places.
    """

    is_update: bool
    columns: pa.Schema
    parameters: pa.Schema
    takes_names: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Prepared:
    """A prepared statement.

    Attributes:
        text: The statement.
        description: What is known of it.
        values: The values of its parameters, a row for each time that it is to run.
    """

    text: str
    description: Description
    values: pa.Table | None = None

    @property
    def size_bytes(self) -> int:
        """About what it holds of memory."""
        values = self.values.nbytes if self.values is not None else 0
        return _EACH_BYTES + len(self.text) + int(values)

    def parameter_sets(self) -> list[Any]:
        """The values of each run: by place, or by name where the statement has names.

        Raises:
            SeamlineError: INVALID_PARAMETERS for what Python has no value for.
        """
        if self.values is None or not self.values.num_columns:
            return [[]]
        try:
            if self.description.takes_names:
                return list(self.values.to_pylist())
            columns = [column.to_pylist() for column in self.values.columns]
        except (pa.ArrowException, ValueError, OverflowError, NotImplementedError) as error:
            raise SeamlineError(
                INVALID_PARAMETERS, f"a parameter has no value that can be read: {error}"
            ) from error
        return [list(row) for row in zip(*columns, strict=True)]


class PreparedStatements:
    """The prepared statements of one gateway. Safe to share between threads.

    Args:
        running: Runs statements.
    """

    def __init__(self, running: Running) -> None:
        self._running = running
        self._known: FairCache[str, Prepared] = FairCache(
            _KEPT_BYTES_MAX, weight=lambda found: found.size_bytes, ttl_s=KEPT_S
        )

    def prepare(self, call: Call, text: str) -> tuple[str, Prepared]:
        """Prepares a statement; gives its handle, too.

        Raises:
            SeamlineError: what is wrong with it.
        """
        made = Prepared(text, self.describe(call, text))
        handle = secrets.token_urlsafe(18)
        self._known.put(call.caller.principal.name, handle, made)
        return handle, made

    def find(self, call: Call, handle: bytes) -> Prepared:
        """A prepared statement of the caller, for whom those of others do not exist.

        Raises:
            SeamlineError: PREPARED_STATEMENT_NOT_FOUND.
        """
        owner, key = call.caller.principal.name, handle.decode(errors="replace")
        found = self._known.get(owner, key)
        if found is None:
            raise SeamlineError(
                PREPARED_STATEMENT_NOT_FOUND,
                "the prepared statement is not known here, or not any more",
                hint="Prepare it again: one that is not used for an hour is forgotten, and a "
                "gateway that stops forgets them all.",
            )
        self._known.put(owner, key, found)
        return found

    def bind(self, call: Call, handle: bytes, values: pa.Table) -> Prepared:
        """Keeps values for the next run.

        Raises:
            SeamlineError: PREPARED_STATEMENT_NOT_FOUND.
        """
        bound = dataclasses.replace(self.find(call, handle), values=values)
        self._known.put(call.caller.principal.name, handle.decode(), bound)
        return bound

    def close(self, call: Call, handle: bytes) -> None:
        """Forgets one; does nothing where there is none."""
        self._known.pop(call.caller.principal.name, handle.decode(errors="replace"))

    def describe(self, call: Call, text: str) -> Description:
        """What is known of a statement before it runs.

        Raises:
            SeamlineError: what is wrong with it.
        """
        parsed = parse.parse(text, dialect=call.session.options.get("dialect"))
        match parsed:
            case Query():
                columns = self._columns(call, text)
                return self._of_query(call, text, parsed, columns)
            case Explain(query=query):
                name, type_ = ("Query Plan", types.VARCHAR)
                if parsed.type == "VALIDATE" and not parsed.analyze:
                    name, type_ = ("Valid", types.BOOLEAN)
                columns = pa.schema([types.result_field(name, type_)])
                return self._of_query(call, text, query, columns)
            case Insert(query=query) | CreateTableAs(query=query):
                parameters = _fields([types.VARCHAR] * query.placeholders)
                return Description(True, NO_COLUMNS, parameters, _takes_names(query))
            case Execute():
                raise SeamlineError(
                    STATEMENT_NOT_ALLOWED,
                    "EXECUTE cannot be prepared itself",
                    hint="Prepare the statement that it runs.",
                )
        if statements.update_type(parsed) is not None:
            return Description(True, NO_COLUMNS, NO_COLUMNS)
        return Description(False, self._running.rows(call, text).schema, NO_COLUMNS)

    def _of_query(self, call: Call, text: str, query: Query, columns: pa.Schema) -> Description:
        parameters = NO_COLUMNS
        if query.placeholders:
            asked = f"DESCRIBE INPUT {_NAME}"
            found = self._running.rows(call, asked, prepared={_NAME: text}).column("Type")
            parameters = _fields([_known(type_) for type_ in found.to_pylist()])
        return Description(False, columns, parameters, _takes_names(query))

    def _columns(self, call: Call, text: str) -> pa.Schema:
        statement = self._running.begin(call, f"DESCRIBE OUTPUT {_NAME}", prepared={_NAME: text})
        self._running.forget(statement)
        return pa.schema(types.result_field(each.name, each.type) for each in statement.described)


def _known(type_: str) -> Type:
    return types.VARCHAR if type_ == str(types.UNKNOWN) else types.parse(type_)


def _fields(of: Sequence[Type]) -> pa.Schema:
    """Parameters by place."""
    return pa.schema(types.result_field(str(place), type_) for place, type_ in enumerate(of))


def _takes_names(query: Query) -> bool:
    return any(node.this for node in query.tree.find_all(exp.Placeholder))


def one(sets: list[Any]) -> Any:
    """The values of a query, which runs once.

    Raises:
        SeamlineError: INVALID_PARAMETERS.
    """
    if len(sets) != 1:
        raise SeamlineError(
            INVALID_PARAMETERS,
            f"{len(sets):,} rows of parameters came for a query, which takes one",
            hint="Run it once for each.",
        )
    return sets[0]
