"""Registers kernels as functions of a Spark session, whose Python workers run them over Arrow."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import duckdb
import pyarrow as pa

from seamline.connectors.duckdb.errors import named_error
from seamline.connectors.spark.sessions import Session
from seamline.errors import SeamlineError
from seamline.sql import types
from seamline.sql.kernels.calls import FAILURE, VALUE, from_wire, to_wire, wire_type
from seamline.sql.kernels.kernel import Use


def learn(session: Session, kernels: Mapping[str, Use]) -> None:
    """Makes kernels callable in a session."""
    from pyspark.util import PythonEvalType

    for name, use in kernels.items():
        if session.learned.get(name) == use:
            continue
        function = _of_series(functools.partial(answers, use))
        returns = f"{VALUE} {types.to_spark(wire_type(use.returns))}, {FAILURE} STRING"
        # `udf.register` would decide by the process which of PySpark's two kinds of session this is
        session.spark.client.register_udf(
            function, f"STRUCT<{returns}>", name, PythonEvalType.SQL_SCALAR_PANDAS_UDF
        )
        session.learned[name] = use


def _of_series(run: Callable[[Sequence[Any]], Any]) -> Any:
    """Returns a function that is pickled with what it calls, whatever the workers have imported."""

    def kernel(*columns: Any) -> Any:
        return run(columns)

    return kernel


def answers(use: Use, columns: Sequence[Any]) -> Any:
    """Returns, for each row, the result in its wire form, or the message of what failed in it.

    Args:
        use: The kernel.
        columns: Its arguments in their wire form, as pandas series.
    """
    import pandas as pd

    arguments = [
        from_wire(pa.Array.from_pandas(column, type=types.to_arrow(wire_type(type_))), type_)
        for column, type_ in zip(columns, use.parameters, strict=True)
    ]
    values: list[pa.Array] = []
    failures: list[str | None] = []
    for part in _parts(use, arguments):
        if isinstance(part, SeamlineError):
            values.append(pa.nulls(1, types.to_arrow(wire_type(use.returns))))
            failures.append(part.summary)
        else:
            values.append(to_wire(part, use.returns))
            failures += [None] * len(part)
    whole = pa.concat_arrays(values)
    return pd.DataFrame({VALUE: whole.to_pandas(), FAILURE: pd.Series(failures, dtype="object")})


def _parts(use: Use, arguments: Sequence[pa.Array]) -> Iterator[pa.Array | SeamlineError]:
    """Yields the results of consecutive rows; finds a row that fails by bisection."""
    try:
        answer = use(*arguments)
    except duckdb.Error as error:
        failure = named_error(error)
    except SeamlineError as error:
        failure = error
    else:
        yield answer
        return
    count = len(arguments[0])
    if count == 1:
        yield failure
        return
    yield from _parts(use, [argument.slice(0, count // 2) for argument in arguments])
    yield from _parts(use, [argument.slice(count // 2) for argument in arguments])
