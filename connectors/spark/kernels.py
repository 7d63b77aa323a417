"""Kernels as functions of a Spark session, run by its Python workers over Arrow."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import duckdb
import pyarrow as pa

from seamline.connectors.duckdb.errors import named_error
from seamline.connectors.spark.sessions import functions_for
from seamline.sql import types
from seamline.sql.kernels.calls import from_wire, to_wire, wire_type
from seamline.sql.kernels.kernel import Use


def learn(session: Any, kernels: Mapping[str, Use]) -> None:
    """Makes kernels callable in a session."""
    if not kernels:
        return
    pandas_udf = functions_for(session).pandas_udf
    for name, use in kernels.items():
        returns = types.to_spark(wire_type(use.returns))
        function = functools.partial(_run, use)
        session.udf.register(name, pandas_udf(_of_series(function), returns))


def _of_series(run: Any) -> Any:
    """A function whose annotations tell Spark that it is of series."""
    import pandas as pd

    def kernel(*columns: pd.Series) -> pd.Series:
        return run(*columns)

    kernel.__annotations__ = {"columns": pd.Series, "return": pd.Series}
    return kernel


def _run(use: Use, *columns: Any) -> Any:
    arguments = [
        from_wire(pa.Array.from_pandas(column, type=types.to_arrow(wire_type(type_))), type_)
        for column, type_ in zip(columns, use.parameters, strict=True)
    ]
    try:
        found = use(*arguments)
    except duckdb.Error as error:
        raise named_error(error) from error
    return to_wire(found, use.returns).to_pandas(integer_object_nulls=True)
