"""Functions of text and of bytes."""

from __future__ import annotations

from seamline.sql import texts
from seamline.sql.functions.registry import by_duckdb_everywhere, scalar

_BLANKS_DUCKDB = "(chr(32) || chr(9) || chr(10) || chr(11) || chr(12) || chr(13))"
_BLANKS_SPARK = "concat(char(32), char(9), char(10), char(11), char(12), char(13))"

scalar("length", "varchar -> bigint", "length({0})", "CAST(char_length({0}) AS BIGINT)")
scalar("length", "varbinary -> bigint", "octet_length({0})", "CAST(octet_length({0}) AS BIGINT)")
scalar("lower", "varchar -> varchar", texts.DUCKDB_LOWER, texts.SPARK_LOWER)
scalar("upper", "varchar -> varchar", texts.DUCKDB_UPPER, texts.SPARK_UPPER)
scalar(
    "concat", "varchar... -> varchar", lambda a, _, __: "(" + " || ".join(a) + ")", "concat({args})"
)
scalar("$trim", "varchar, varchar -> varchar", "trim({0}, {1})", "trim(BOTH {1} FROM {0})")
scalar("$ltrim", "varchar, varchar -> varchar", "ltrim({0}, {1})", "trim(LEADING {1} FROM {0})")
scalar("$rtrim", "varchar, varchar -> varchar", "rtrim({0}, {1})", "trim(TRAILING {1} FROM {0})")
for _name, _side in (("trim", "BOTH"), ("ltrim", "LEADING"), ("rtrim", "TRAILING")):
    scalar(
        _name,
        "varchar -> varchar",
        f"{_name}({{0}}, {_BLANKS_DUCKDB})",
        f"trim({_side} {_BLANKS_SPARK} FROM {{0}})",
    )
for _name in ("substr", "substring"):
    scalar(
        _name,
        "varchar, bigint -> varchar",
        "(CASE WHEN {1} = 0 OR -{1} > length({0}) THEN '' ELSE substr({0}, {1}) END)",
        "(CASE WHEN {1} = 0 OR -{1} > length({0}) THEN '' ELSE substr({0}, CAST({1} AS INT)) END)",
    )
    scalar(
        _name,
        "varchar, bigint, bigint -> varchar",
        "(CASE WHEN {1} = 0 OR {2} <= 0 OR -{1} > length({0}) THEN ''"
        " ELSE substr({0}, {1}, {2}) END)",
        "(CASE WHEN {1} = 0 OR {2} <= 0 OR -{1} > length({0}) THEN ''"
        " ELSE substr({0}, CAST({1} AS INT), CAST({2} AS INT)) END)",
    )
for _name, _order in (("strpos", ("{0}", "{1}")), ("$position", ("{1}", "{0}"))):
    scalar(
        _name,
        "varchar, varchar -> bigint",
        f"CAST(strpos({_order[0]}, {_order[1]}) AS BIGINT)",
        f"CAST(locate({_order[1]}, {_order[0]}) AS BIGINT)",
    )
scalar(
    "starts_with", "varchar, varchar -> boolean", "starts_with({0}, {1})", "startswith({0}, {1})"
)
for _replacement, _signature in (
    ("''", "varchar, varchar -> varchar"),
    ("{2}", "varchar, varchar, varchar -> varchar"),
):
    scalar(
        "replace",
        _signature,
        f"(CASE WHEN {{1}} = '' THEN error('INVALID_ARGUMENT: replace needs a text to look for')"
        f" ELSE replace({{0}}, {{1}}, {_replacement}) END)",
        "(CASE WHEN {1} = '' THEN raise_error('INVALID_ARGUMENT: replace needs a text to look for')"
        f" ELSE replace({{0}}, {{1}}, {_replacement}) END)",
    )
scalar(
    "split_part",
    "varchar, varchar, bigint -> varchar",
    "(CASE WHEN {2} < 1 OR {1} = '' THEN error('INVALID_ARGUMENT: split_part counts from 1')"
    " WHEN {2} > (length({0}) - length(replace({0}, {1}, ''))) // length({1}) + 1 THEN NULL"
    " ELSE split_part({0}, {1}, {2}) END)",
    "(CASE WHEN {2} < 1 OR {1} = '' THEN raise_error('INVALID_ARGUMENT: split_part counts from 1')"
    " WHEN {2} > (length({0}) - length(replace({0}, {1}, ''))) div length({1}) + 1 THEN NULL"
    " ELSE split_part({0}, {1}, CAST({2} AS INT)) END)",
)
for _name in ("lpad", "rpad"):
    scalar(
        _name,
        "varchar, bigint, varchar -> varchar",
        f"(CASE WHEN {{1}} < 0 OR {{2}} = '' THEN error('INVALID_ARGUMENT: {_name} needs a length"
        f" and a text to fill with') ELSE {_name}({{0}}, CAST({{1}} AS INTEGER), {{2}}) END)",
        f"(CASE WHEN {{1}} < 0 OR {{2}} = '' THEN raise_error('INVALID_ARGUMENT: {_name} needs a"
        f" length and a text to fill with') ELSE {_name}({{0}}, CAST({{1}} AS INT), {{2}}) END)",
    )
scalar("to_hex", "varbinary -> varchar", "hex({0})")
scalar("to_utf8", "varchar -> varbinary", "encode({0})", "encode({0}, 'UTF-8')")
scalar("from_utf8", "varbinary -> varchar", "decode({0})", "decode({0}, 'UTF-8')")
scalar("md5", "varbinary -> varbinary", "unhex(md5({0}))", "unhex(md5({0}))")
scalar("sha256", "varbinary -> varbinary", "unhex(sha256({0}))", "unhex(sha2({0}, 256))")

# --- Regular expressions -------------------------------------------------------------------------

by_duckdb_everywhere("regexp_like", "varchar, varchar -> boolean", "regexp_matches({0}, {1})")
