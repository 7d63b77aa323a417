"""What Superset and others do over `trino://`: `python trino_sqlalchemy_program.py PORT TABLE`.

The table is reflected, its columns and views are listed and queried; and JupySQL's `%sql` runs in
an IPython of its own. Writes what it finds as JSON.
"""

from __future__ import annotations

import json
import sys

import sqlalchemy as sa
from IPython.core.interactiveshell import InteractiveShell

port, table = sys.argv[1:]
address = f"trino://ann@127.0.0.1:{port}/lake/default"
engine = sa.create_engine(address)
inspector = sa.inspect(engine)
bids = sa.Table(table, sa.MetaData(), autoload_with=engine)
view = f"{table}_v"
with engine.connect() as connection:
    connection.execute(sa.text(f"CREATE VIEW {view} AS SELECT id FROM {table}"))
    query = sa.select(bids.c.channel, sa.func.count()).group_by(bids.c.channel)
    groups = connection.execute(query.order_by(bids.c.channel).limit(10)).all()
    wrapped = sa.text(f"SELECT * FROM (SELECT id FROM {table} WHERE id > :id) AS virtual LIMIT 5")
    beyond = connection.execute(wrapped, {"id": 3}).all()
    plan = connection.execute(sa.text(f"EXPLAIN (TYPE IO, FORMAT JSON) SELECT * FROM {table}"))
    read = json.loads(plan.scalar_one())["inputTableColumnInfos"][0]["table"]["schemaTable"]
shell = InteractiveShell.instance()
shell.run_line_magic("load_ext", "sql")
shell.run_line_magic("config", "SqlMagic.displaycon = False")
shell.run_line_magic("config", "SqlMagic.feedback = 0")
shell.run_line_magic("sql", address)
counted = shell.run_line_magic("sql", f"SELECT count(*) AS n FROM {table}")
found = {
    "schemas": "default" in inspector.get_schema_names(),
    "is_table": table in inspector.get_table_names(schema="default"),
    "views": view in inspector.get_view_names(schema="default"),
    "definition": inspector.get_view_definition(view, schema="default"),
    "columns": {c["name"]: str(c["type"]) for c in inspector.get_columns(table)},
    "indexes": inspector.get_indexes(table),
    "groups": [list(row) for row in groups],
    "beyond": [list(row) for row in beyond],
    "read": read,
    "magic": counted.dict(),
}
with engine.connect() as connection:
    connection.execute(sa.text(f"DROP VIEW {view}"))
sys.stdout.write(f"\n{json.dumps(found)}\n")
