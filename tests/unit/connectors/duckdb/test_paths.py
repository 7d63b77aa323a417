"""Goal: whatever a file's path is made of, DuckDB reads this file and no other.

Method: folders named at random, wildcards and what they match among them, with files of one name;
the rows of each folder are those that were put there, in every place that a table has rows in.
"""

from __future__ import annotations

import dataclasses
import itertools
import pathlib
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pyiceberg.io.pyarrow import PyArrowFileIO
from support.engine_tables import PLACES, Storage, answer, arrow_schema, bound
from support.examples import examples

from seamline.connectors.duckdb.relation import data_paths, row_counts_sql
from seamline.connectors.duckdb.storage import attach
from seamline.connectors.duckdb.workers import DuckDBWorkers
from seamline.connectors.protocols.engines import EngineScan
from seamline.seam.files import ColdPlan
from seamline.sql.quoting import quoted_text
from seamline.sql.types import BIGINT, Field

FIELDS = (Field("n", BIGINT, 1),)
ROWS = 6
NAMES = st.text("*?[]!^-abc{},~%$é '\"#+=@", min_size=1, max_size=5).filter(str.strip)
_NUMBERS = itertools.count()


@pytest.mark.prove
@pytest.mark.parametrize("place", PLACES)
@given(names=st.lists(NAMES, min_size=1, max_size=4, unique=True))
@example(names=["a*", "[ab]", "?", "**"])
@examples(40)
def test_folders(
    engine: DuckDBWorkers, tmp_path_factory: pytest.TempPathFactory, place: str, names: list[str]
) -> None:
    parent = tmp_path_factory.getbasetemp() / f"paths-{next(_NUMBERS)}"
    tables, expected = {}, {}
    for number, name in enumerate(dict.fromkeys([*names, "a", "ab", "abc", "b"])):
        folder: pathlib.Path = parent / f"p={name}"
        folder.mkdir(parents=True, exist_ok=True)
        rows = list(range(number * ROWS, (number + 1) * ROWS))
        table = pa.table({"n": rows}, schema=arrow_schema(FIELDS))
        tables[f"t{number}"] = Storage(folder).stored(table, place)
        expected[f"t{number}"] = sorted(repr((row,)) for row in rows)
    for name, stored in tables.items():
        query, scans = bound(f"SELECT n FROM {name}", {name: FIELDS})
        assert answer(engine, query, scans, {name: stored}) == expected[name]
    union = " UNION ALL ".join(f"SELECT n FROM {name}" for name in tables)
    query, scans = bound(union, dict.fromkeys(tables, FIELDS))
    assert answer(engine, query, scans, tables) == sorted(itertools.chain(*expected.values()))


class Remote(PyArrowFileIO):
    """Files of this machine under names of another storage."""

    def new_input(self, location: str) -> Any:
        return super().new_input(location.removeprefix("far:/"))


def test_remote_folders(tmp_path: pathlib.Path) -> None:
    """Files that DuckDB asks the table's own storage for."""
    names = ("a", "ab", "a*", "[ab]", "?", "**", "a?*")
    files = []
    for number, name in enumerate(names):
        (tmp_path / f"p={name}").mkdir()
        rows = pa.table({"n": list(range(number + 1))}, schema=arrow_schema(FIELDS))
        file = Storage(tmp_path / f"p={name}").file(rows)
        files.append(dataclasses.replace(file, path=f"far:/{file.path}"))
    scan = dataclasses.replace(
        EngineScan("", ("t",), (), cold=ColdPlan(1, tuple(files), len(files), 1)),
        file_access=Remote({}),
    )
    with duckdb.connect() as connection:
        attach(connection, [scan])
        listed = ", ".join(map(quoted_text, data_paths(scan)))
        connection.execute(f"SET allowed_paths = [{listed}]")
        connection.execute("SET enable_external_access = false")
        counts = connection.execute(f"{row_counts_sql(files)} ORDER BY 1").fetchall()
    assert [count for _, count in counts] == [number + 1 for number in range(len(names))]
