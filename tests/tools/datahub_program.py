"""What people do with DataHub: collect a schema's metadata, and profile its tables.

Run by test_tools.py, which checks what this writes: PORT TABLE.
"""

from __future__ import annotations

import json
import pathlib
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

import trino
from datahub.ingestion.run.pipeline import Pipeline

SNAPSHOT = "com.linkedin.pegasus2avro.metadata.snapshot.DatasetSnapshot"


def collected(port: str, table: str) -> Iterator[dict[str, Any]]:
    """Yields what the source for Trino finds out about a table and its view."""
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "found.json"
        chosen = {"allow": [f"lake\\.default\\.{table}(_view)?$"]}
        config = {
            "host_port": f"127.0.0.1:{port}",
            "database": "lake",
            "username": "ann",
            "options": {"connect_args": {"http_scheme": "http"}},
            "schema_pattern": {"allow": ["^default$"]},
            "table_pattern": chosen,
            "view_pattern": chosen,
            "profiling": {"enabled": True, "profile_table_level_only": False},
            "profile_pattern": {"allow": [f"lake\\.default\\.{table}(\\..*)?$"]},
        }
        source = {"type": "trino", "config": config}
        sink = {"type": "file", "config": {"filename": str(file)}}
        pipeline = Pipeline.create({"source": source, "sink": sink})
        pipeline.run()
        yield {"failures": len(pipeline.source.get_report().failures)}
        yield from json.loads(file.read_text(encoding="utf-8"))


def main() -> None:
    """Collects, and writes what was found."""
    port, table = sys.argv[1:]
    connect: Any = trino.dbapi.connect
    connection = connect(
        host="127.0.0.1", port=int(port), user="ann", catalog="lake", schema="default"
    )
    connection.cursor().execute(
        f"CREATE VIEW {table}_view SECURITY INVOKER AS SELECT id FROM {table}"
    ).fetchall()
    found: dict[str, Any] = {}
    for item in collected(port, table):
        found.update({"failures": item["failures"]} if "failures" in item else {})
        for aspect in item.get("proposedSnapshot", {}).get(SNAPSHOT, {}).get("aspects", []):
            ((kind, value),) = aspect.items()
            if kind.endswith("SchemaMetadata") and value["schemaName"].endswith(table):
                found["columns"] = {f["fieldPath"]: f["nativeDataType"] for f in value["fields"]}
        if item.get("aspectName") == "viewProperties":
            found["view"] = item["aspect"]["json"]["viewLogic"]
        if item.get("aspectName") == "datasetProfile":
            profile = item["aspect"]["json"]
            found["rows"] = profile["rowCount"]
            found["profile"] = {
                field["fieldPath"]: [field.get("min"), field.get("max"), field["nullCount"]]
                for field in profile["fieldProfiles"]
            }
    sys.stdout.write(f"{json.dumps(found)}\n")


main()
