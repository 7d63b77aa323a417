"""Goal: the reports that people write over several tables answer as over plain tables.

Method: six tables of a shop, each half hot and half cold, and joins as reports have them: stars and
chains of dimensions, nested groups, correlated subqueries, common tables. The answers are compared
with those over DuckDB's own tables in memory.
"""

from __future__ import annotations

import pathlib
from collections.abc import Mapping

import duckdb
import pytest
from support.engine_tables import Storage, answer, arrow_schema, bound, plain_answer

from seamline.connectors.duckdb.workers import DuckDBWorkers
from seamline.sql import types
from seamline.sql.types import Field

TABLES: Mapping[str, tuple[int, Mapping[str, tuple[str, str]]]] = {
    "regions": (5, {"id": ("bigint", "i"), "region": ("varchar", "'region ' || i")}),
    "nations": (
        25,
        {
            "id": ("bigint", "i"),
            "nation": ("varchar", "'nation ' || i"),
            "region_id": ("bigint", "i % 5"),
        },
    ),
    "suppliers": (
        100,
        {"id": ("bigint", "i"), "nation_id": ("bigint", "i % 25"), "name": ("varchar", "'s' || i")},
    ),
    "customers": (
        1_500,
        {
            "id": ("bigint", "i"),
            "nation_id": ("bigint", "i * 7 % 25"),
            "segment": ("varchar", "'segment ' || i % 5"),
            "phone": ("varchar", "'' || 10 + i * 13 % 25 || '-' || i"),
            "balance": ("decimal(12, 2)", "i * 37 % 10000 - 1000"),
        },
    ),
    "parts": (
        2_000,
        {
            "id": ("bigint", "i"),
            "brand": ("varchar", "'brand ' || i % 25"),
            "kind": ("varchar", "['PROMO TIN', 'SMALL TIN', 'LARGE BRASS'][1 + i % 3]"),
            "size": ("integer", "i % 50"),
        },
    ),
    "orders": (
        15_000,
        {
            "id": ("bigint", "i"),
            "customer_id": ("bigint", "i * 11 % 1500 // 3 * 3"),
            "placed": ("date", "DATE '1992-01-01' + CAST(i % 2400 AS INTEGER)"),
            "priority": ("varchar", "'priority ' || i % 5"),
            "note": ("varchar", "CASE WHEN i % 9 = 0 THEN 'special requests' ELSE 'none' END"),
        },
    ),
    "lines": (
        60_000,
        {
            "order_id": ("bigint", "i // 4"),
            "part_id": ("bigint", "i * 17 % 2000"),
            "supplier_id": ("bigint", "i * 29 % 100"),
            "quantity": ("integer", "1 + i % 50"),
            "price": ("decimal(12, 2)", "900 + i % 1000"),
            "discount": ("decimal(4, 2)", "i % 11 / 100"),
            "shipped": ("date", "DATE '1992-01-02' + CAST(i // 4 % 2400 + i % 90 AS INTEGER)"),
            "due": ("date", "DATE '1992-01-02' + CAST(i // 4 % 2400 + i * 31 % 70 AS INTEGER)"),
            "mode": ("varchar", "['AIR', 'RAIL', 'SHIP', 'TRUCK'][1 + i % 4]"),
            "returned": ("varchar", "CASE WHEN i % 13 = 0 THEN 'R' ELSE 'N' END"),
        },
    ),
}

REPORTS: Mapping[str, str] = {
    "summary of prices": """
        SELECT returned, mode, sum(quantity), sum(price), sum(price * (1 - discount)), count(*)
        FROM lines WHERE shipped <= DATE '1998-09-02' GROUP BY returned, mode""",
    "cheapest of a region": """
        SELECT p.id, s.name, n.nation FROM parts p JOIN lines l ON p.id = l.part_id
        JOIN suppliers s ON s.id = l.supplier_id JOIN nations n ON s.nation_id = n.id
        JOIN regions r ON n.region_id = r.id
        WHERE p.size = 15 AND p.kind LIKE '%BRASS' AND r.region = 'region 0' AND l.price = (
            SELECT min(x.price) FROM lines x JOIN suppliers y ON y.id = x.supplier_id
            JOIN nations z ON y.nation_id = z.id WHERE x.part_id = p.id AND z.region_id = r.id)""",
    "orders to ship first": """
        SELECT l.order_id, sum(l.price * (1 - l.discount)) AS revenue, o.placed
        FROM customers c JOIN orders o ON c.id = o.customer_id JOIN lines l ON l.order_id = o.id
        WHERE c.segment = 'segment 3' AND o.placed < DATE '1995-03-15'
        AND l.shipped > DATE '1995-03-15' GROUP BY l.order_id, o.placed
        ORDER BY revenue DESC, l.order_id LIMIT 10""",
    "late orders": """
        SELECT o.priority, count(*) FROM orders o WHERE o.placed >= DATE '1993-07-01'
        AND o.placed < DATE '1993-10-01' AND EXISTS (
            SELECT 1 FROM lines l WHERE l.order_id = o.id AND l.due < l.shipped)
        GROUP BY o.priority""",
    "suppliers at home": """
        SELECT n.nation, sum(l.price * (1 - l.discount)) FROM customers c
        JOIN orders o ON c.id = o.customer_id JOIN lines l ON l.order_id = o.id
        JOIN suppliers s ON l.supplier_id = s.id AND c.nation_id = s.nation_id
        JOIN nations n ON s.nation_id = n.id JOIN regions r ON n.region_id = r.id
        WHERE r.region = 'region 2' AND o.placed >= DATE '1994-01-01' GROUP BY n.nation""",
    "trade of two nations": """
        SELECT s.nation, c.nation, year(l.shipped), sum(l.price) FROM lines l
        JOIN (SELECT x.id, n.nation FROM suppliers x JOIN nations n ON x.nation_id = n.id
              WHERE n.nation IN ('nation 3', 'nation 7')) s ON s.id = l.supplier_id
        JOIN orders o ON o.id = l.order_id
        JOIN (SELECT x.id, n.nation FROM customers x JOIN nations n ON x.nation_id = n.id
              WHERE n.nation IN ('nation 3', 'nation 7')) c ON c.id = o.customer_id
        WHERE s.nation <> c.nation GROUP BY 1, 2, 3""",
    "returned": """
        SELECT c.id, c.phone, sum(l.price) AS lost FROM customers c
        JOIN orders o ON c.id = o.customer_id JOIN lines l ON l.order_id = o.id
        WHERE o.placed >= DATE '1993-10-01' AND o.placed < DATE '1994-01-01'
        AND l.returned = 'R' GROUP BY c.id, c.phone ORDER BY lost DESC, c.id LIMIT 20""",
    "modes": """
        SELECT l.mode, sum(CASE WHEN o.priority IN ('priority 0', 'priority 1') THEN 1 ELSE 0 END)
        FROM orders o JOIN lines l ON o.id = l.order_id WHERE l.mode IN ('AIR', 'SHIP')
        AND l.due < l.shipped AND l.shipped >= DATE '1994-01-01' GROUP BY l.mode""",
    "customers by orders": """
        SELECT orders, count(*) FROM (
            SELECT c.id, count(o.id) AS orders FROM customers c
            LEFT JOIN orders o ON c.id = o.customer_id AND o.note NOT LIKE '%special%'
            GROUP BY c.id) t GROUP BY orders""",
    "promotions": """
        SELECT sum(CASE WHEN p.kind LIKE 'PROMO%' THEN l.price ELSE 0 END), sum(l.price)
        FROM lines l JOIN parts p ON l.part_id = p.id
        WHERE l.shipped >= DATE '1995-09-01' AND l.shipped < DATE '1995-10-01'""",
    "best supplier": """
        WITH revenue AS (SELECT supplier_id, sum(price) AS total FROM lines
            WHERE shipped >= DATE '1996-01-01' AND shipped < DATE '1996-04-01' GROUP BY supplier_id)
        SELECT s.id, s.name, r.total FROM suppliers s JOIN revenue r ON s.id = r.supplier_id
        WHERE r.total = (SELECT max(total) FROM revenue)""",
    "suppliers of parts": """
        SELECT p.brand, p.kind, count(DISTINCT l.supplier_id) FROM lines l
        JOIN parts p ON p.id = l.part_id WHERE p.brand <> 'brand 4' AND p.size IN (3, 9, 14, 19)
        AND l.supplier_id NOT IN (SELECT id FROM suppliers WHERE name LIKE '%7')
        GROUP BY p.brand, p.kind""",
    "small quantities": """
        SELECT sum(l.price) FROM lines l JOIN parts p ON p.id = l.part_id
        WHERE p.brand = 'brand 3' AND l.quantity < (
            SELECT 0.2e0 * avg(x.quantity) FROM lines x WHERE x.part_id = p.id)""",
    "large orders": """
        SELECT c.id, o.id, o.placed, sum(l.quantity) FROM customers c
        JOIN orders o ON c.id = o.customer_id JOIN lines l ON o.id = l.order_id
        WHERE o.id IN (SELECT order_id FROM lines GROUP BY order_id HAVING sum(quantity) > 190)
        GROUP BY c.id, o.id, o.placed""",
    "either or": """
        SELECT sum(l.price) FROM lines l JOIN parts p ON p.id = l.part_id
        WHERE (p.brand = 'brand 12' AND l.quantity BETWEEN 1 AND 11 AND p.size <= 5)
        OR (p.brand = 'brand 23' AND l.quantity BETWEEN 10 AND 20 AND l.mode = 'AIR')""",
    "suppliers with much": """
        SELECT s.name FROM suppliers s JOIN nations n ON s.nation_id = n.id
        WHERE n.nation = 'nation 3' AND s.id IN (
            SELECT supplier_id FROM lines WHERE part_id IN (
                SELECT id FROM parts WHERE kind LIKE 'SMALL%')
            GROUP BY supplier_id HAVING sum(quantity) > 100)""",
    "the only late one": """
        SELECT s.name, count(*) FROM suppliers s JOIN lines l ON s.id = l.supplier_id
        WHERE l.shipped > l.due
        AND EXISTS (SELECT 1 FROM lines x
            WHERE x.order_id = l.order_id AND x.supplier_id <> l.supplier_id)
        AND NOT EXISTS (SELECT 1 FROM lines x WHERE x.order_id = l.order_id
            AND x.supplier_id <> l.supplier_id AND x.shipped > x.due)
        GROUP BY s.name""",
    "who might buy": """
        SELECT substr(phone, 1, 2), count(*), sum(balance) FROM customers c
        WHERE substr(phone, 1, 2) IN ('13', '31', '23') AND balance > (
            SELECT max(balance) - 8000 FROM customers WHERE balance > 0)
        AND NOT EXISTS (SELECT 1 FROM orders o WHERE o.customer_id = c.id) GROUP BY 1""",
    "first and last": """
        SELECT l.order_id, l.price FROM lines l JOIN (
            SELECT id FROM orders ORDER BY placed, id LIMIT 100) o ON o.id = l.order_id
        WHERE l.part_id IN (SELECT id FROM parts ORDER BY id DESC LIMIT 900)""",
}


@pytest.mark.prove
def test_reports_over_half_hot_and_half_cold_tables(
    engine: DuckDBWorkers, tmp_path: pathlib.Path
) -> None:
    storage, fields, stored = Storage(tmp_path), {}, {}
    with duckdb.connect(config={"threads": "2"}) as plain:
        for name, (rows, columns) in TABLES.items():
            fields[name] = tuple(
                Field(column, types.parse(type_), number)
                for number, (column, (type_, _)) in enumerate(columns.items(), start=1)
            )
            chosen = ", ".join(
                f"CAST({value} AS {types.to_duckdb(field.type)}) AS {field.name}"
                for field, (_, value) in zip(fields[name], columns.values(), strict=True)
            )
            plain.execute(f"CREATE TABLE {name} AS SELECT {chosen} FROM range({rows}) AS _(i)")
            found = plain.table(name).to_arrow_table().cast(arrow_schema(fields[name]))
            stored[name] = storage.stored(found, "both")
        empty = []
        for report, sql in REPORTS.items():
            query, names = bound(sql, fields)
            wanted = plain_answer(plain, query, names)
            assert answer(engine, query, names, stored) == wanted, report
            empty += [] if wanted else [report]
    assert not empty
