"""Statements that are large in one way, made by a rule, with answers known by arithmetic."""

from __future__ import annotations

ANSWERED = {
    "IN of 10,000": (f"SELECT 9999 IN ({', '.join(map(str, range(10_000)))})", True),
    "IN of 5,000 texts": (
        "SELECT count(*) FROM (VALUES 'k7', 'x') AS t(k) WHERE k IN ("
        + ", ".join(f"'k{i}'" for i in range(5_000))
        + ")",
        1,
    ),
    "1,000 UNION ALL": (
        f"SELECT sum(x) FROM ({' UNION ALL '.join(f'SELECT {i} AS x' for i in range(1_000))})",
        499_500,
    ),
    "200 UNION ALL": (
        f"SELECT sum(x) FROM ({' UNION ALL '.join(f'SELECT {i} AS x' for i in range(200))})",
        19_900,
    ),
    "1,000 UNION": (
        f"SELECT count(*) FROM ({' UNION '.join(f'SELECT {i % 7} AS x' for i in range(1_000))})",
        7,
    ),
    "300 UNION ALL of two types": (
        "SELECT sum(x) FROM ("
        + " UNION ALL ".join(f"SELECT {i}{'.5' * (i % 2)} AS x" for i in range(300))
        + ")",
        44_925,
    ),
    "100 CTEs one over the other": (
        "WITH t0 AS (SELECT 0 AS x), "
        + ", ".join(f"t{i} AS (SELECT x + 1 AS x FROM t{i - 1})" for i in range(1, 100))
        + " SELECT x FROM t99",
        99,
    ),
    "1,000 columns": (
        "SELECT c999 FROM (SELECT " + ", ".join(f"{i} AS c{i}" for i in range(1_000)) + ")",
        999,
    ),
    "5,000 rows of VALUES": (
        f"SELECT sum(x) FROM (VALUES {', '.join(f'({i})' for i in range(5_000))}) AS t(x)",
        12_497_500,
    ),
    "500 WHENs": (
        f"SELECT CASE x {' '.join(f'WHEN {i} THEN {i} + 1' for i in range(500))} END"
        " FROM (VALUES 499) AS t(x)",
        500,
    ),
    "a text of 100,000 characters": (f"SELECT length('{'ä' * 100_000}')", 100_000),
    "names of any script": (
        'SELECT "größe" + "数" + "a b" + "x""y"'
        ' FROM (VALUES (1, 2, 3, 4)) AS "t ü"("größe", "数", "a b", "x""y")',
        10,
    ),
    "a name of 10,000 characters": (
        f'SELECT "{"n" * 10_000}" FROM (SELECT 3 AS "{"n" * 10_000}")',
        3,
    ),
    "60 brackets": (f"SELECT {'(' * 60}1{')' * 60}", 1),
    "400 operators": (f"SELECT {' + '.join(['1'] * 400)}", 400),
    "900 conditions of ranges and sums": (
        "SELECT count(*) FROM (VALUES 7) AS t(x) WHERE "
        + " OR ".join(f"x + 1 BETWEEN {i} AND {i} + 1 AND x * 2 = 14" for i in range(900)),
        1,
    ),
    "64 relations joined": (
        "SELECT count(*) FROM (VALUES 1, 2) AS t0(k)"
        + "".join(f" JOIN (VALUES 2, 3) AS t{i}(k) ON t{i}.k = t{i - 1}.k" for i in range(1, 64)),
        1,
    ),
    "200 relations joined to one": (
        "SELECT count(*) FROM (VALUES 1, 2) AS t0(k)"
        + "".join(f" LEFT JOIN (VALUES 2, 3) AS t{i}(k) ON t{i}.k = t0.k" for i in range(1, 200)),
        2,
    ),
    "50 queries inside of each other": (
        f"SELECT x FROM {'(SELECT x FROM ' * 50}(SELECT 1 AS x){')' * 50}",
        1,
    ),
}
"""Statements, and their answers."""

REFUSED = {
    "1,000 brackets": f"SELECT {'(' * 1_000}1{')' * 1_000}",
    "1,000 queries inside of each other": (
        f"SELECT x FROM {'(SELECT x FROM ' * 1_000}(SELECT 1 AS x){')' * 1_000}"
    ),
    "1,000 functions": f"SELECT {'abs(' * 1_000}1{')' * 1_000}",
    "65 relations joined": "SELECT count(*) FROM (VALUES 1) AS t0(k)"
    + "".join(f" JOIN (VALUES 1) AS t{i}(k) ON t{i}.k = t{i - 1}.k" for i in range(1, 65)),
    "1,000 arrays": f"SELECT {'ARRAY[' * 1_000}1{']' * 1_000}",
    "1,002 conditions": "SELECT count(*) FROM (VALUES 7) AS t(x) WHERE "
    + " OR ".join(f"x BETWEEN {i} AND {i}" for i in range(1_002)),
    "20,000 operators": f"SELECT {' + '.join(['1'] * 20_000)}",
    "3,000 concatenations": f"SELECT length({' || '.join(['s'] * 3_000)}) FROM (SELECT 'x' AS s)",
    "1 MB": f"SELECT '{'x' * 1_000_000}'",
    "1 MB of blanks": f"SELECT{' ' * 1_000_000}1",
}
"""What is too large, and says so."""

EITHER = {
    "1,000 CTEs side by side": (
        "WITH "
        + ", ".join(f"t{i} AS (SELECT {i} AS x)" for i in range(1_000))
        + " SELECT t1.x + t999.x FROM t1, t999",
        1_000,
    ),
    "1,000 CTEs one over the other": (
        "WITH t0 AS (SELECT 0 AS x), "
        + ", ".join(f"t{i} AS (SELECT x + 1 AS x FROM t{i - 1})" for i in range(1, 1_000))
        + " SELECT x FROM t999",
        999,
    ),
    "1,000 NOT": (f"SELECT {'NOT ' * 1_000}true", True),
    "1,000 signs": (f"SELECT {'- ' * 1_000}1", 1),
    "1,000 CASE in ELSE": (
        "SELECT "
        + "".join(f"CASE WHEN x = {i} THEN {i} ELSE " for i in range(1_000))
        + "-1"
        + " END" * 1_000
        + " FROM (VALUES 7) AS t(x)",
        7,
    ),
    "1,000 UNION ALL in brackets": (
        "SELECT count(*) FROM ("
        + "(" * 50
        + "SELECT 1 AS x"
        + " UNION ALL SELECT 2)" * 50
        + " UNION ALL SELECT 3" * 950
        + " LIMIT 400)",
        400,
    ),
}
"""What may be too large for one of the parts, with the answer if it is not."""

ON_SPARK = (
    "IN of 10,000",
    "200 UNION ALL",
    "100 CTEs one over the other",
    "1,000 columns",
    "500 WHENs",
    "a text of 100,000 characters",
    "names of any script",
    "60 brackets",
    "400 operators",
    "50 queries inside of each other",
)
"""Those that Spark answers or refuses soon."""
