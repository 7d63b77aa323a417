"""Goal: no call of a table function, and no metadata table, is a fault of the gateway's own.

Method: each table function, and functions that are none, under every qualifier, with arguments that
are missing, of another kind, misnamed, doubled or too many; each metadata table of each kind of
table, in every form that FROM has. Each is asked for by somebody who sees all, by somebody who sees
a part, and by somebody who sees nothing. The answer is rows or an error with a name of its own.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterable, Iterator, Sequence

import pytest
from support.ruled import Ruled

from seamline.gateway.names import VARIANTS

RULES = """
tables:
- {user: boss, privileges: [SELECT, INSERT, OWNERSHIP]}
- {user: ann, table: pay|plain|newest, privileges: [SELECT], filter: id < 3}
- {user: mat, table: pay|plain|newest, privileges: [SELECT], columns: [{name: v, mask: 'NULL'}]}
topics: [{user: boss}]
functions: [{user: boss|ann, privileges: [EXECUTE]}]
"""
PEOPLE: dict[str, Sequence[str]] = {"boss": (), "ann": (), "mat": (), "eve": ()}
QUALIFIERS = ("", "system.", "lake.system.", "system.builtin.", "nowhere.", "a.b.c.", '"".')
FUNCTIONS = ("changes", "sequence", "CHANGES", "nothing", '"changes"')
VALUES = (
    *("'pay'", "'nowhere'", "''", "'a b'", "'beginning'", "'forged'", "'w1.x'", "NULL", "pay"),
    *("0", "-1", "1.5", "9999999999999999999", "TABLE(pay)", "(SELECT 1)", "DESCRIPTOR(id)"),
    *("ARRAY[1]", "x -> x", "*", "DATE '2024-01-01'", "('pay')", "-(1)", "'pay$files'"),
)
NAMES = ("table", "from_token", "to_token", "offsets_max", "start", "stop", "step", "until")


def arguments() -> Iterator[str]:
    """The arguments of a call, right and wrong."""
    yield from ("", ",", *VALUES)
    yield from ("table => 'pay', from_token => 'beginning'", "'pay', 'beginning', NULL, 1")
    for value in VALUES:
        yield f"'pay', {value}"
        yield f"'pay', 'beginning', {value}"
        yield f"'pay', 'beginning', NULL, {value}"
        yield f"1, 2, {value}"
    for name, value in itertools.product(NAMES, ("'pay'", "1", "NULL", "TABLE(pay)")):
        yield f"{name} => {value}"
        yield f"'pay', {name} => {value}"
        yield f"{name} => {value}, {name} => {value}"
    yield "'pay', 'beginning', 'beginning', 1, 1, 1"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ruled]:
    made = Ruled(tmp_path_factory.mktemp("functions"), RULES, PEOPLE)
    made.memory.create_topic("pay", 2)
    columns = "(id bigint, v varchar)"
    for sql in (
        f"CREATE TABLE pay {columns} WITH (topic = 'pay')",
        f"CREATE TABLE newest {columns} WITH (topic = 'pay', mode = 'upsert', key = 'id', "
        "primary_key = ARRAY['id'])",
        "CREATE TABLE plain AS SELECT 1 AS id, 'a' AS v",
        "CREATE TABLE empty (id bigint)",
        "CREATE VIEW seen AS SELECT id FROM pay",
    ):
        made.rows("boss", sql)
    for number in range(4):
        made.memory.produce("pay", number % 2, b'{"id": %d, "v": "a"}' % number, key=b"k")
    with contextlib.closing(made.gateway):
        yield made


def faults(world: Ruled, statements: Iterable[str], people: Sequence[str]) -> list[str]:
    """The statements that end as no statement may."""
    found, ended = [], set[str]()
    for who, sql in itertools.product(people, statements):
        code = world.do(who, sql)
        ended.add(code)
        if code == "INTERNAL_ERROR":
            found.append(f"{who}: {sql}")
    assert len(ended) > 3, ended
    return found


def test_no_place_of_a_table_function_is_an_internal_error(world: Ruled) -> None:
    forms = (
        "SELECT * FROM {}", "SELECT * FROM TABLE({})", "SELECT * FROM TABLE(TABLE({}))",
        "SELECT {}", "SELECT * FROM {} FOR VERSION AS OF 1",
    )  # fmt: skip
    calls = (
        "changes('pay')", "system.changes('pay')", "lake.system.changes('pay', 'beginning')",
        "changes", "system.changes", "sequence()", "system.builtin.sequence(3)",
    )  # fmt: skip
    statements = [form.format(call) for form, call in itertools.product(forms, calls)]
    assert faults(world, statements, ["boss", "ann"]) == []
    assert world.do("ann", "SELECT * FROM TABLE(system.changes('pay'))") == "INVALID_ARGUMENT"
    assert world.do("ann", "SELECT * FROM TABLE(system.changes('pay', 'beginning'))") == "done"
    assert world.do("mat", "SELECT * FROM TABLE(system.changes('pay', 'beginning'))") != "done"


@pytest.mark.prove
@pytest.mark.parametrize("who", ["boss", pytest.param("ann", marks=pytest.mark.soak)])
def test_no_call_of_a_table_function_is_an_internal_error(world: Ruled, who: str) -> None:
    calls = (
        f"SELECT * FROM TABLE({qualifier}{function}({given}))"
        for qualifier, function, given in itertools.product(QUALIFIERS, FUNCTIONS, arguments())
        if function in {"changes", "sequence"} or given in {"", "'pay'", "TABLE(pay)"}
    )
    assert faults(world, calls, [who]) == []


@pytest.mark.prove
@pytest.mark.one_in(prove=5)
@pytest.mark.parametrize("table", ["pay", "newest", "plain", "empty", "seen"])
def test_no_metadata_table_is_an_internal_error(world: Ruled, table: str) -> None:
    forms = (
        "SELECT * FROM {}", "SELECT count(*) FROM {}", "DESCRIBE {}", "SHOW STATS FOR {}",
        "SHOW CREATE TABLE {}", "EXPLAIN SELECT * FROM {}", "SELECT * FROM {} FOR VERSION AS OF 1",
        "SELECT * FROM {} FOR VERSION AS OF 'main'", "SELECT * FROM {}(1)",
        "SELECT * FROM TABLE({})", "SELECT * FROM {} TABLESAMPLE BERNOULLI (50)",
        "SELECT * FROM {} FOR TIMESTAMP AS OF TIMESTAMP '2100-01-01 00:00:00 UTC'",
        "SELECT * FROM {} FOR TIMESTAMP AS OF TIMESTAMP '1970-01-01 00:00:00 UTC'",
        "SELECT a.* FROM {} a JOIN {} b ON true", "INSERT INTO {} VALUES (1)", "DROP TABLE {}",
    )  # fmt: skip
    named = [f'"{table}${variant}"' for variant in (*VARIANTS, "nothing", "", "files$files")]
    statements = [form.replace("{}", name) for form in forms for name in named]
    assert faults(world, statements, ["boss", "ann"]) == []
