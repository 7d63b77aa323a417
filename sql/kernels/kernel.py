"""Kernels: functions over Arrow arrays that both engines run.

DuckDB calls a kernel in its own process, Spark in its Python workers.
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
from seamline.sql.quoting import quoted_text
from seamline.sql.slices import unsliced
from seamline.sql.templates import DUCKDB, SPARK, Template, rendered
from seamline.sql.types import Type

if TYPE_CHECKING:
    import duckdb

Compute: TypeAlias = "Callable[[Use, Sequence[pa.Array]], pa.Array]"
"""Computes a kernel over arguments of equal length; the function handles nulls itself."""


@dataclasses.dataclass(frozen=True, slots=True)
class Kernel:
    """A function that both engines run.

    Attributes:
        name: A human-readable name.
        compute: The function that computes it.
        engines: The engines that call it; any other has its own expression.
    """

    name: str
    compute: Compute
    engines: frozenset[str] = frozenset({DUCKDB, SPARK})


@dataclasses.dataclass(frozen=True, slots=True)
class Use:
    """A kernel for arguments of certain types, under a unique name."""

    kernel: Kernel
    parameters: tuple[Type, ...]
    returns: Type

    @property
    def name(self) -> str:
        """The name by which the engines call it."""
        text = f"{self.parameters!r} {self.returns!r}"
        digest = hashlib.blake2b(text.encode(), digest_size=6).hexdigest()
        return f"kernel_{self.kernel.name}_{digest}"

    def function(self) -> Callable[..., pa.Array]:
        """Returns a function with as many parameters as the kernel has."""

        def run(*arguments: pa.Array | pa.ChunkedArray) -> pa.Array:
            return self(*arguments)

        names = [f"a{index}" for index in range(len(self.parameters))]
        parameters = [inspect.Parameter(name, inspect.Parameter.POSITIONAL_ONLY) for name in names]
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        return run

    def teach(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Registers it as a function in DuckDB."""
        import duckdb  # analysing statements must not require it
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
        """Computes the result for arguments as the engines pass them.

        Raises:
            SeamlineError: NUMERIC_OVERFLOW when the result does not fit its type, INVALID_ARGUMENT
                when there is no result.
        """
        try:
            return self.kernel.compute(self, [_whole(argument) for argument in arguments])
        except (OverflowError, decimal.InvalidOperation, pa.ArrowInvalid) as error:
            message = f"the result of {self.kernel.name} is not a value of type {self.returns}"
            raise SeamlineError(NUMERIC_OVERFLOW, message) from error
        except ValueError as error:  # outside a function's domain
            raise SeamlineError(INVALID_ARGUMENT, f"{self.kernel.name}: {error}") from error


def _whole(argument: pa.Array | pa.ChunkedArray) -> pa.Array:
    return argument.combine_chunks() if isinstance(argument, pa.ChunkedArray) else argument


def by_row(function: Callable[..., Any]) -> Compute:
    """Returns a kernel from a function of Python values; a row with a null argument is null.

    The function is called once for consecutive rows with equal arguments.
    """
    return _ByRow(function)


@dataclasses.dataclass(frozen=True, slots=True)
class _ByRow:
    function: Callable[..., Any]

    def __call__(self, use: Use, arguments: Sequence[pa.Array]) -> pa.Array:
        columns = [argument.to_pylist() for argument in arguments]
        results: list[Any] = []
        last: tuple[Any, ...] | None = None
        value: Any = None
        for row in zip(*columns, strict=True):
            if row != last:
                value = None if None in row else self.function(*row)
                last = row
            results.append(value)
        return pa.array(results, types.to_arrow(use.returns))


def by_duckdb(template: Template) -> Compute:
    """Returns a kernel from a DuckDB expression, for which DuckDB serves as a library.

    A text that is the same in all rows becomes a literal, so that patterns and formats are parsed
    once.
    """

    def compute(use: Use, arguments: Sequence[pa.Array]) -> pa.Array:
        names = [f"a{index}" for index in range(len(arguments))]
        texts = [_literal(a) or name for name, a in zip(names, arguments, strict=True)]
        sql = rendered(
            template, texts, use.parameters, use.returns, DUCKDB, plain=[True] * len(texts)
        )
        result = evaluated(sql, dict(zip(names, arguments, strict=True)))
        return result.cast(types.to_arrow(use.returns))

    return compute


@dataclasses.dataclass(frozen=True, slots=True)
class Tried:
    """A kernel from a DuckDB expression with TRY around it.

    Attributes:
        sql: The expression over `a0`, `a1`, ….
        kernels: The kernels that it calls, by name.
    """

    sql: str
    kernels: Mapping[str, Use]

    def __call__(self, use: Use, arguments: Sequence[pa.Array]) -> pa.Array:
        """Computes the value in each row."""
        columns = {f"a{index}": argument for index, argument in enumerate(arguments)}
        return evaluated(self.sql, columns, self.kernels).cast(types.to_arrow(use.returns))


def evaluated(
    sql: str, columns: Mapping[str, pa.Array], kernels: Mapping[str, Use] | None = None
) -> pa.Array:
    """Evaluates a DuckDB expression over columns.

    Args:
        sql: The expression.
        columns: The columns that it reads, by name.
        kernels: The kernels that it calls, by name, if it has TRY around it.
    """
    with _evaluator(tries=kernels is not None) as evaluator:
        connection = evaluator.connection
        evaluator.learn(kernels or {})
        connection.register("rows", unsliced(pa.table(dict(columns))))
        try:
            table = connection.sql(f"SELECT {sql} AS v FROM rows").to_arrow_table()
        finally:
            connection.unregister("rows")
    return _whole(table.column("v"))


def _literal(argument: pa.Array) -> str | None:
    if not pa.types.is_string(argument.type):
        return None
    value = constant(argument)
    return None if value is None else quoted_text(value)


def constant(argument: pa.Array) -> Any:
    """Returns the value that all rows share, as a Python object; None for several or none."""
    if len(argument) == 0 or argument.null_count:
        return None
    first = argument[0]
    is_same = pc.all(pc.equal(argument, first)).as_py()
    return first.as_py() if is_same else None


class _Evaluator:
    """A private DuckDB instance that reads only what it is given.

    Args:
        tries: Whether what it evaluates has TRY around it.
    """

    def __init__(self, *, tries: bool) -> None:
        import duckdb  # analysing statements must not require it

        self.connection = duckdb.connect(":memory:", config={"threads": "1"})
        self.connection.execute("SET TimeZone = 'UTC'")
        if tries:
            # an expression that occurs twice in TRY would be computed once, before TRY
            self.connection.execute("SET disabled_optimizers = 'common_subexpressions'")
            # TRY refuses volatile functions, and DuckDB takes its own `error` for one
            self.connection.execute(f"CREATE MACRO error(message) AS {_FAILURE}")
            self.connection.execute(f"CREATE MACRO {NO_VALUE}(message) AS NULL")
        self.connection.execute("SET enable_external_access = false")
        self.connection.execute("SET lock_configuration = true")
        self._known: set[str] = set()

    def learn(self, kernels: Mapping[str, Use]) -> None:
        """Registers kernels that are not known yet."""
        for name in kernels.keys() - self._known:
            kernels[name].teach(self.connection)
            self._known.add(name)


NO_VALUE = "no_value"
"""Replaces `error` where null will do."""
_FAILURE = "list_extract([NULL], CAST(message AS BIGINT))"


_IDLE: Mapping[bool, collections.deque[_Evaluator]] = {
    False: collections.deque(),
    True: collections.deque(),
}
"""Idle evaluators, by whether they try."""


@contextlib.contextmanager
def _evaluator(*, tries: bool) -> Iterator[_Evaluator]:
    """Yields an evaluator for exclusive use; it is pooled, since engine threads are short-lived."""
    try:
        evaluator = _IDLE[tries].pop()
    except IndexError:
        evaluator = _Evaluator(tries=tries)
    try:
        yield evaluator
    finally:
        _IDLE[tries].append(evaluator)
