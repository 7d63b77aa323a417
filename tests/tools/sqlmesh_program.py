"""What people do with SQLMesh over a gateway: `python sqlmesh_program.py PORT TABLE`.

A model of every kind is planned and filled, a model changes and is planned again, an audit runs;
SQLMesh's own state is in DuckDB. Writes what it finds as JSON.
"""

from __future__ import annotations

import json
import pathlib
import sys
import tempfile

from sqlmesh import Context
from sqlmesh.core.config import (
    Config,
    DuckDBConnectionConfig,
    GatewayConfig,
    ModelDefaultsConfig,
    TrinoConnectionConfig,
)

port, table = sys.argv[1:]
schema = f"mesh_{table}"
SOURCE = f"lake.default.{table}"
MODELS = {
    "totals": f"MODEL (name {schema}.totals, kind FULL, audits (not_null(columns := (channel))));"
    f" SELECT channel, sum(price) AS total FROM {SOURCE} GROUP BY channel",
    "daily": f"MODEL (name {schema}.daily, kind INCREMENTAL_BY_TIME_RANGE (time_column day));"
    f" SELECT id, DATE '2024-01-01' + id * INTERVAL '1' DAY AS day FROM {SOURCE}"
    " WHERE DATE '2024-01-01' + id * INTERVAL '1' DAY BETWEEN @start_date AND @end_date",
    "latest": f"MODEL (name {schema}.latest, kind INCREMENTAL_BY_UNIQUE_KEY (unique_key channel));"
    f" SELECT channel, max(id) AS id FROM {SOURCE} GROUP BY channel",
    "joined": f"MODEL (name {schema}.joined, kind VIEW);"
    f" SELECT t.channel, t.total, l.id FROM {schema}.totals t JOIN {schema}.latest l"
    " ON t.channel = l.channel",
}
folder = pathlib.Path(tempfile.mkdtemp())
(folder / "models").mkdir()
for name, text in MODELS.items():
    (folder / "models" / f"{name}.sql").write_text(text, encoding="utf-8")
gateway = TrinoConnectionConfig(
    host="127.0.0.1",
    port=int(port),
    http_scheme="http",
    user="ann",
    catalog="lake",
    method="no-auth",
)
state = DuckDBConnectionConfig(database=str(folder / "state.db"))
config = Config(
    gateways={"": GatewayConfig(connection=gateway, state_connection=state)},
    model_defaults=ModelDefaultsConfig(dialect="trino", start="2024-01-01"),
)


def planned() -> Context:
    context = Context(paths=str(folder), config=config)
    context.plan(auto_apply=True, no_prompts=True)
    return context


context = planned()
first = context.fetchdf(f"SELECT * FROM {schema}.joined ORDER BY channel").to_dict("list")
days = context.fetchdf(f"SELECT id, day FROM {schema}.daily ORDER BY id")
text = MODELS["totals"].replace("sum(price) AS total", "sum(price) * 10 AS total")
(folder / "models" / "totals.sql").write_text(text, encoding="utf-8")
again = planned().fetchdf(f"SELECT total FROM {schema}.joined ORDER BY channel")
found = {
    "joined": first,
    "days": [str(day)[:10] for day in days["day"]],
    "changed": again["total"].tolist(),
}
print(json.dumps(found))
