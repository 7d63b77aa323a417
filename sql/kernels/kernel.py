"""A kernel: one function over Arrow arrays that both engines run.

DuckDB calls it as a function of its own process, Spark in its Python workers.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import decimal
import hashlib
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from seamline.errors import INVALID_ARGUMENT, NUMERIC_OVERFLOW, SeamlineError
from seamline.sql import types
from seamline.sql.slices import unsliced
from seamline.sql.templates import DUCKDB, SPARK, Template, rendered
from seamline.sql.types import Type

if TYPE_CHECKING:
    import duckdb

Compute: TypeAlias = "Callable[[Use, Sequence[pa.Array]], pa.Array]"
"""What a kernel does with arguments of equal length; nulls are its own business."""


@dataclasses.dataclass(frozen=True, slots=True)
class Kernel:
    """A function that both engines run.

    Attributes:
        name: A name for people.
        compute: What it does.
        engines: Those that call it; another has an expression of its own.
    """

    name: str
    compute: Compute
    engines: frozenset[str] = frozenset({DUCKDB, SPARK})


@dataclasses.dataclass(frozen=True, slots=True)
class Use:
    """A kernel for arguments of certain types, under a name that no other use has.

    Attributes:
        kernel: The kernel.
        parameters: Types of its arguments.
        returns: Type of its result.
    """

    kernel: Kernel
    parameters: tuple[Type, ...]
    returns: Type

    @property
    def name(self) -> str:
        """What the engines call it."""
        text = f"{self.parameters!r} {self.returns!r}"
        digest = hashlib.blake2b(text.encode(), digest_size=6).hexdigest()
        return f"kernel_{self.kernel.name}_{digest}"

    def function(self) -> Callable[..., pa.Array]:
        """It, with a signature that has as many arguments as it takes."""

        def run(*arguments: pa.Array | pa.ChunkedArray) -> pa.Array:
            return self(*arguments)

        names = [f"a{place}" for place in range(len(self.parameters))]
        parameters = [inspect.Parameter(name, inspect.Parameter.POSITIONAL_ONLY) for name in names]
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        return run

    def teach(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Makes it callable in DuckDB."""
        import duckdb  # to know what a statement means, nobody needs it
        from duckdb.func import FunctionNullHandling, PythonUDFType

        connection.create_function(
            self.name,
            self.function(),
            [duckdb.sqltype(types.to_duckdb(type_)) for type_ in self.parameters],
            duckdb.sqltype(types.to_duckdb(self.returns)),
            type=PythonUDFType.ARROW,
            null_handling=FunctionNullHandling.SPECIAL,
        )

    def __call__(self, *arguments: pa.Array | pa.ChunkedArray) -> pa.Array:
        """The result for arguments as the engines hand them over.

        Raises:
            SeamlineError: NUMERIC_OVERFLOW when it is none of its type, INVALID_ARGUMENT where
                there is none.
        """
        try:
            return self.kernel.compute(self, [_whole(argument) for argument in arguments])
        except (OverflowError, decimal.InvalidOperation, pa.ArrowInvalid) as error:
            message = f"what {self.kernel.name} gives is no value of type {self.returns}"
            raise SeamlineError(NUMERIC_OVERFLOW, message) from error
        except ValueError as error:  # outside of a function's domain
            raise SeamlineError(INVALID_ARGUMENT, f"{self.kernel.name}: {error}") from error


def _whole(argument: pa.Array | pa.ChunkedArray) -> pa.Array:
    return argument.combine_chunks() if isinstance(argument, pa.ChunkedArray) else argument


def by_row(function: Callable[..., Any]) -> Compute:
    """A kernel of a function of Python values; null for a row with a null argument.

    The function is called once for equal arguments that follow each other.
    """
    return _ByRow(function)


@dataclasses.dataclass(frozen=True, slots=True)
class _ByRow:
    function: Callable[..., Any]

    def __call__(self, use: Use, arguments: Sequence[pa.Array]) -> pa.Array:
        columns = [argument.to_pylist() for argument in arguments]
        found: list[Any] = []
        last: tuple[Any, ...] | None = None
        value: Any = None
        for row in zip(*columns, strict=True):
            if row != last:
                value = None if None in row else self.function(*row)
                last = row
            found.append(value)
        return pa.array(found, types.to_arrow(use.returns))


def by_duckdb(template: Template) -> Compute:
    """A kernel of an expression of DuckDB's, which is a library wherever it runs.

    A text that all rows have becomes a literal: patterns and formats are then read once.
    """

    def compute(use: Use, arguments: Sequence[pa.Array]) -> pa.Array:
        names = [f"a{place}" for place in range(len(arguments))]
        texts = [_literal(a) or name for name, a in zip(names, arguments, strict=True)]
        sql = rendered(
            template, texts, use.parameters, use.returns, DUCKDB, plain=[True] * len(texts)
        )
        found = evaluated(sql, dict(zip(names, arguments, strict=True)))
        return found.cast(types.to_arrow(use.returns))

    return compute


@dataclasses.dataclass(frozen=True, slots=True)
class Tried:
    """A kernel of an expression of DuckDB's with TRY around it.

    Attributes:
        sql: The expression over `a0`, `a1`, ….
        kernels: What it calls, by name.
    """

    sql: str
    kernels: Mapping[str, Use]

    def __call__(self, use: Use, arguments: Sequence[pa.Array]) -> pa.Array:
        """Its value in each row."""
        columns = {f"a{place}": argument for place, argument in enumerate(arguments)}
        return evaluated(self.sql, columns, self.kernels).cast(types.to_arrow(use.returns))


def evaluated(
    sql: str, columns: Mapping[str, pa.Array], kernels: Mapping[str, Use] | None = None
) -> pa.Array:
    """An expression of DuckDB's over columns.

    Args:
        sql: The expression.
        columns: What it reads, by name.
        kernels: What it calls, by name, when it has TRY around it.
    """
    with _evaluator(tries=kernels is not None) as evaluator:
        connection = evaluator.connection
        evaluator.learn(kernels or {})
        connection.register("rows", unsliced(pa.table(dict(columns))))
        try:
            found = connection.sql(f"SELECT {sql} AS v FROM rows").to_arrow_table()
        finally:
            connection.unregister("rows")
    return _whole(found.column("v"))


def _literal(argument: pa.Array) -> str | None:
    if not pa.types.is_string(argument.type):
        return None
    value = constant(argument)
    return None if value is None else "'" + value.replace("'", "''") + "'"


def constant(argument: pa.Array) -> Any:
    """The one value that all rows have, as Python holds it; None when there are several or none."""
    if len(argument) == 0 or argument.null_count:
        return None
    first = argument[0]
    is_same = pc.all(pc.equal(argument, first)).as_py()
    return first.as_py() if is_same else None


class _Evaluator:
    """A DuckDB of our own, which reads nothing but what it is given.

    Args:
        tries: Whether what it evaluates has TRY around it.
    """

    def __init__(self, *, tries: bool) -> None:
        import duckdb  # to know what a statement means, nobody needs it

        self.connection = duckdb.connect(":memory:", config={"threads": "1"})
        self.connection.execute("SET TimeZone = 'UTC'")
        if tries:
            # what stands twice in TRY would be computed once, in front of it
            self.connection.execute("SET disabled_optimizers = 'common_subexpressions'")
            # TRY takes nothing that may differ each time, for which DuckDB takes its own `error`
            self.connection.execute(f"CREATE MACRO error(message) AS {_FAILURE}")
            self.connection.execute(f"CREATE MACRO {NO_VALUE}(message) AS NULL")
        self.connection.execute("SET enable_external_access = false")
        self.connection.execute("SET lock_configuration = true")
        self._known: set[str] = set()

    def learn(self, kernels: Mapping[str, Use]) -> None:
        """Makes kernels callable."""
        for name in kernels.keys() - self._known:
            kernels[name].teach(self.connection)
            self._known.add(name)


NO_VALUE = "no_value"
"""What stands for `error` where null does as well."""
_FAILURE = "list_extract([NULL], CAST(message AS BIGINT))"


_IDLE: Mapping[bool, collections.deque[_Evaluator]] = {
    False: collections.deque(),
    True: collections.deque(),
}
"""Those that nobody uses, by whether they try."""


@contextlib.contextmanager
def _evaluator(*, tries: bool) -> Iterator[_Evaluator]:
    """One that nobody else uses; the threads of an engine do not live as long as it does."""
    try:
        found = _IDLE[tries].pop()
    except IndexError:
        found = _Evaluator(tries=tries)
    try:
        yield found
    finally:
        _IDLE[tries].append(found)
