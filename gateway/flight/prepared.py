"""Prepared statements: describes their columns and parameters, and keeps values until they run.

A statement is described by the gateway's own DESCRIBE OUTPUT and DESCRIBE INPUT, so a description
costs a plan and reads no rows. A statement that only lists something, such as SHOW, is run to find
its columns. A description counts as one statement. A prepared statement belongs to whoever prepared
it, and is dropped after a time without use.
"""

from __future__ import annotations

import dataclasses
import secrets
import uuid
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
from seamline.gateway.commands import explaining, kinds
from seamline.gateway.flight.columns import columns_of, is_uuid, parameter
from seamline.gateway.flight.running import NO_COLUMNS, Call, Running
from seamline.sql import types
from seamline.sql.parsing import parse
from seamline.sql.parsing.statements import Execute, Explain, Query
from seamline.sql.types import Type

KEPT_S = 3600.0
"""Seconds for which an unused prepared statement is kept."""
_KEPT_BYTES_MAX = 64 << 20
"""Memory for all texts and values; beyond it, the largest owner loses the least recently used
first."""
_EACH_BYTES = 1000
_NAME = "p"
_UNREADABLE = (
    pa.ArrowException, ValueError, OverflowError, NotImplementedError,
    LookupError,  # an unknown time zone
)  # fmt: skip
"""What Arrow raises for values that Python cannot represent."""


@dataclasses.dataclass(frozen=True, slots=True)
class Description:
    """What is known about a statement before it runs.

    Attributes:
        is_update: Whether it changes something and returns no rows.
        columns: Its columns; empty for an update.
        parameters: Its parameters, by position; varchar if the type of one is unknown.
        takes_names: Whether its parameters are named rather than positional.
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
        description: What is known about it.
        values: The values of its parameters, one row per run.
    """

    text: str
    description: Description
    values: pa.Table | None = None

    @property
    def size_bytes(self) -> int:
        """The approximate memory that it uses."""
        values = self.values.nbytes if self.values is not None else 0
        return _EACH_BYTES + len(self.text) + int(values)

    def parameter_sets(self) -> list[Any]:
        """Returns the values of each run, by position, or by name if the parameters are named.

        Raises:
            SeamlineError: INVALID_PARAMETERS for a value that Python cannot represent.
        """
        if self.values is None or not self.values.num_columns:
            return [[]]
        try:
            if self.description.takes_names:
                return list(self.values.to_pylist())
            expected = {field.name: field for field in self.description.parameters}
            columns = [
                _python_values(column, expected.get(str(position)))
                for position, column in enumerate(self.values.columns)
            ]
        except _UNREADABLE as error:
            raise SeamlineError(
                INVALID_PARAMETERS, f"a parameter's value cannot be read: {error}"
            ) from error
        return [list(row) for row in zip(*columns, strict=True)]


class PreparedStatements:
    """The prepared statements of one gateway. Safe to share between threads."""

    def __init__(self, running: Running) -> None:
        self._running = running
        self._statements: FairCache[str, Prepared] = FairCache(
            _KEPT_BYTES_MAX, weight=lambda prepared: prepared.size_bytes, ttl_s=KEPT_S
        )

    def prepare(self, call: Call, text: str) -> tuple[str, Prepared]:
        """Prepares a statement, and returns it with its handle.

        Raises:
            SeamlineError: the error of the statement.
        """
        prepared = Prepared(text, self.describe(call, text))
        handle = secrets.token_urlsafe(18)
        self._statements.put(call.caller.principal.name, handle, prepared)
        return handle, prepared

    def find(self, call: Call, handle: bytes) -> Prepared:
        """Returns a prepared statement of the caller; those of others do not exist for the caller.

        Raises:
            SeamlineError: PREPARED_STATEMENT_NOT_FOUND.
        """
        owner, key = call.caller.principal.name, handle.decode(errors="replace")
        prepared = self._statements.get(owner, key)
        if prepared is None:
            raise SeamlineError(
                PREPARED_STATEMENT_NOT_FOUND,
                "the prepared statement is unknown here, or no longer kept",
                hint="Prepare it again: it is dropped after an hour "
                "without use, or when the gateway stops.",
            )
        self._statements.put(owner, key, prepared)
        return prepared

    def bind(self, call: Call, handle: bytes, values: pa.Table) -> Prepared:
        """Keeps values for the next run.

        Raises:
            SeamlineError: PREPARED_STATEMENT_NOT_FOUND.
        """
        bound = dataclasses.replace(self.find(call, handle), values=values)
        self._statements.put(call.caller.principal.name, handle.decode(), bound)
        return bound

    def close(self, call: Call, handle: bytes) -> None:
        """Forgets a prepared statement; does nothing if there is none."""
        self._statements.pop(call.caller.principal.name, handle.decode(errors="replace"))

    def describe(self, call: Call, text: str) -> Description:
        """Returns what is known about a statement before it runs.

        Raises:
            SeamlineError: the error of the statement; TOO_MANY_STATEMENTS.
        """
        self._running.count(call, text)
        parsed = parse.parse(text, dialect=call.session.options.get("dialect"))
        if isinstance(parsed, Execute):
            raise SeamlineError(
                STATEMENT_NOT_ALLOWED,
                "EXECUTE itself cannot be prepared",
                hint="Prepare the statement that it runs.",
            )
        is_update = kinds.update_type(parsed) is not None
        if is_update:
            columns = NO_COLUMNS
        elif isinstance(parsed, Query):
            columns = self._columns(call, text)
        elif isinstance(parsed, Explain):
            columns = columns_of(explaining.output(parsed))
        else:
            columns = self._running.rows(call, text, continues=True).schema
        query = kinds.kind_of(parsed).query(parsed)
        if query is None:
            return Description(is_update, columns, NO_COLUMNS)
        parameters = self._parameters(call, text, query)
        return Description(is_update, columns, parameters, _takes_names(query))

    def _parameters(self, call: Call, text: str, query: Query) -> pa.Schema:
        if not query.placeholders:
            return NO_COLUMNS
        sql, prepared = f"DESCRIBE INPUT {_NAME}", {_NAME: text}
        rows = self._running.rows(call, sql, prepared=prepared, continues=True)
        return pa.schema(
            parameter(str(position), _type(name))
            for position, name in enumerate(rows.column("Type").to_pylist())
        )

    def _columns(self, call: Call, text: str) -> pa.Schema:
        sql, prepared = f"DESCRIBE OUTPUT {_NAME}", {_NAME: text}
        statement = self._running.begin(call, sql, prepared=prepared, continues=True)
        self._running.forget(statement)
        return columns_of(statement.described)


def _type(name: str) -> Type:
    return types.VARCHAR if name == str(types.UNKNOWN) else types.parse(name)


def _python_values(values: pa.ChunkedArray, expected: pa.Field | None) -> list[Any]:
    """Returns the values of a parameter; a UUID is text in Arrow, and becomes a UUID here."""
    read: list[Any] = values.to_pylist()
    if expected is None or not is_uuid(expected):
        return read
    return [uuid.UUID(value) if isinstance(value, str) else value for value in read]


def _takes_names(query: Query) -> bool:
    return any(node.this for node in query.tree.find_all(exp.Placeholder))


def only(parameter_sets: list[Any]) -> Any:
    """Returns the only set of values, as a query runs once.

    Raises:
        SeamlineError: INVALID_PARAMETERS.
    """
    if len(parameter_sets) != 1:
        raise SeamlineError(
            INVALID_PARAMETERS,
            f"{len(parameter_sets):,} rows of parameters were sent for a query, which takes one",
            hint="Run it once for each.",
        )
    return parameter_sets[0]
