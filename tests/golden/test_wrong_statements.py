"""Goal: a statement with a habit of another database says what to write, in our own words.

Method: the whole messages in `wrong_statements.txt`, each below its statement, as a gateway over a
catalog in one file gives them; `pytest --rewrite tests/golden` rewrites them, and people read the
diff. Whatever takes the place of a function of another database is run.
"""

from __future__ import annotations

import pathlib
from collections.abc import Iterator

import pyarrow as pa
import pytest
from support import golden
from support.offline import MemoryWorld

from seamline.errors import SeamlineError
from seamline.sql.functions import COLUMNS, FORMS, FUNCTIONS, REASONS, REPLACEMENTS

FILE = pathlib.Path(__file__).with_name("wrong_statements.txt")
ROW = """
SELECT 'a' AS x, 'b' AS y, 1 AS n, 1.5e0 AS r, TIMESTAMP '2026-01-31 00:00:00' AS t,
       TIMESTAMP '2026-02-01 00:00:00' AS u, DATE '2026-01-31' AS d, JSON '{"field": 1}' AS j,
       ARRAY[1] AS a, true AS b
"""
PARSES = ("'%Y-%m-%d'", "from_base64", "from_hex", "json_parse", "array(json)")
"""Parts of expressions that need a text, or a value, of their own form."""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MemoryWorld]:
    world = MemoryWorld(tmp_path_factory.mktemp("gateway"))
    columns = {"k": pa.int64(), "country": pa.string(), "price": pa.float64()}
    table = pa.schema([*columns.items(), ("moment", pa.timestamp("us"))])
    world.catalog.create_namespace("default")
    world.catalog.create_table("default.t", table)
    yield world
    world.gateway.close()


def message(world: MemoryWorld, sql: str) -> str:
    try:
        world.rows(sql)
    except SeamlineError as error:
        return str(error)
    return "OK"


def test_messages(world: MemoryWorld, rewrite: bool) -> None:
    blocks = FILE.read_text(encoding="utf-8").strip().split("\n\n")
    statements = [block.split("\n", 1)[0] for block in blocks]
    text = "\n\n".join(f"{sql}\n{message(world, sql)}" for sql in statements)
    golden.check(FILE, text + "\n", rewrite=rewrite)
    assert "Check the statement" not in text


@pytest.mark.parametrize("expression", sorted({*REPLACEMENTS.values(), *COLUMNS.values()}))
def test_what_takes_the_place_of_a_name_runs(world: MemoryWorld, expression: str) -> None:
    sql = f"SELECT {expression} FROM ({ROW})"
    if any(part in expression for part in PARSES):
        sql = f"EXPLAIN {sql}"
    assert len(world.rows(sql)) >= 1


@pytest.mark.parametrize("name", sorted(REPLACEMENTS))
def test_a_name_that_has_a_replacement_is_not_one_of_ours(world: MemoryWorld, name: str) -> None:
    assert name not in FUNCTIONS
    assert name not in FORMS
    assert name not in REASONS
    error = world.refused(f"SELECT {name}(x, no_such_unit) FROM ({ROW})")
    assert error.hint == f"Write, for example, {REPLACEMENTS[name]}."
