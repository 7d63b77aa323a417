"""Functions of JSON, given as text or as a value of type json."""

from __future__ import annotations

from seamline.sql.functions.registry import kernel, scalar
from seamline.sql.kernels import json_paths, json_texts
from seamline.sql.kernels.kernel import by_row

kernel("json_parse", "varchar -> json", by_row(json_texts.parsed))
scalar("json_format", "json -> varchar", "{0}")
for _type in ("json", "varchar"):
    kernel("json_extract", f"{_type}, varchar -> json", by_row(json_paths.extract))
    kernel("json_extract_scalar", f"{_type}, varchar -> varchar", by_row(json_paths.extract_scalar))
    kernel("json_size", f"{_type}, varchar -> bigint", by_row(json_paths.size))
    kernel("json_array_length", f"{_type} -> bigint", by_row(json_texts.array_length))
    kernel("json_array_get", f"{_type}, bigint -> json", by_row(json_texts.array_get))
    kernel("is_json_scalar", f"{_type} -> boolean", by_row(json_texts.is_scalar))
    for _value in ("boolean", "bigint", "double", "varchar"):
        kernel(
            "json_array_contains",
            f"{_type}, {_value} -> boolean",
            by_row(json_texts.array_contains),
        )
    for _passing in ("", ", varchar, array(varchar)"):
        kernel(
            "$json_exists",
            f"{_type}, varchar, varchar{_passing} -> boolean",
            by_row(json_paths.exists),
        )
        kernel(
            "$json_value",
            f"{_type}, varchar, varchar, varchar, varchar{_passing} -> array(varchar)",
            by_row(json_paths.value),
        )
        kernel(
            "$json_query",
            f"{_type}, varchar, varchar, varchar, varchar, varchar{_passing} -> varchar",
            by_row(json_paths.query),
        )
kernel("$json_array", "array(varchar), varchar -> varchar", by_row(json_texts.array_of))
kernel(
    "$json_object",
    "array(varchar), array(varchar), varchar, varchar -> varchar",
    by_row(json_texts.object_of),
)
