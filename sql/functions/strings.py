"""Functions of text."""

from __future__ import annotations

from seamline.sql import texts
from seamline.sql.functions.registry import by_duckdb_everywhere, kernel, scalar
from seamline.sql.kernels import formats
from seamline.sql.kernels import texts as kernels
from seamline.sql.kernels.kernel import by_row

_MARK = "chr(1114109)"
"""A private-use character between others, where DuckDB joins texts by a constant only."""


def _of_all(count: int, duckdb: str, spark: str) -> tuple[str, str]:
    """Returns templates that are null if any argument is; each continues a CASE."""
    first = " OR ".join(f"{{{index}}} IS NULL" for index in range(count))
    start = f"(CASE WHEN {first} THEN NULL"
    return f"{start} {duckdb} END)", f"{start} {spark} END)"


scalar("length", "varchar -> bigint", "length({0})", "CAST(char_length({0}) AS BIGINT)")
scalar("length", "varbinary -> bigint", "octet_length({0})", "CAST(octet_length({0}) AS BIGINT)")
scalar("lower", "varchar -> varchar", texts.DUCKDB_LOWER, texts.SPARK_LOWER)
scalar("upper", "varchar -> varchar", texts.DUCKDB_UPPER, texts.SPARK_UPPER)
scalar(
    "concat", "varchar... -> varchar", lambda a, _, __: "(" + " || ".join(a) + ")", "concat({args})"
)
scalar("$trim", "varchar, varchar -> varchar", "trim({0}, {1})", "trim(BOTH {1} FROM {0})")
for _mark in ("$", ""):
    for _name, _side in (("ltrim", "LEADING"), ("rtrim", "TRAILING")):
        scalar(
            f"{_mark}{_name}",
            "varchar, varchar -> varchar",
            f"{_name}({{0}}, {{1}})",
            f"trim({_side} {{1}} FROM {{0}})",
        )
for _name, _side in (("trim", "BOTH"), ("ltrim", "LEADING"), ("rtrim", "TRAILING")):
    scalar(
        _name,
        "varchar -> varchar",
        f"{_name}({{0}}, {texts.DUCKDB_BLANKS})",
        f"trim({_side} {texts.SPARK_BLANKS} FROM {{0}})",
    )
_OUTSIDE = "{1} = 0 OR {1} > length({0}) OR {1} < -length({0})"
for _name in ("substr", "substring"):
    scalar(
        _name,
        "varchar, bigint -> varchar",
        *_of_all(
            2,
            f"WHEN {_OUTSIDE} THEN '' ELSE substr({{0}}, {{1}})",
            f"WHEN {_OUTSIDE} THEN '' ELSE substr({{0}}, CAST({{1}} AS INT))",
        ),
    )
    scalar(
        _name,
        "varchar, bigint, bigint -> varchar",
        *_of_all(
            3,
            f"WHEN {_OUTSIDE} OR {{2}} <= 0 THEN ''"
            " ELSE substr({0}, {1}, least({2}, length({0})))",
            f"WHEN {_OUTSIDE} OR {{2}} <= 0 THEN ''"
            " ELSE substr({0}, CAST({1} AS INT), CAST(least({2}, length({0})) AS INT))",
        ),
    )
for _name, _order in (
    ("strpos", ("{0}", "{1}")),
    ("index", ("{0}", "{1}")),
    ("$position", ("{1}", "{0}")),
):
    scalar(
        _name,
        "varchar, varchar -> bigint",
        f"CAST(strpos({_order[0]}, {_order[1]}) AS BIGINT)",
        f"CAST(locate({_order[1]}, {_order[0]}) AS BIGINT)",
    )
for _name, _spark in (("starts_with", "startswith"), ("ends_with", "endswith")):
    scalar(
        _name, "varchar, varchar -> boolean", f"{_name}({{0}}, {{1}})", f"{_spark}({{0}}, {{1}})"
    )
scalar(
    "replace",
    "varchar, varchar -> varchar",
    *_of_all(2, *["WHEN {1} = '' THEN {0} ELSE replace({0}, {1}, '')"] * 2),
)
scalar(
    "replace",
    "varchar, varchar, varchar -> varchar",
    *_of_all(
        3,
        "WHEN {1} <> '' THEN replace({0}, {1}, {2}) WHEN {0} = '' THEN {2}"
        f" ELSE {{2}} || replace(array_to_string(string_split({{0}}, ''), {_MARK}), {_MARK}, {{2}})"
        " || {2}",
        "WHEN {1} <> '' THEN replace({0}, {1}, {2}) WHEN {0} = '' THEN {2}"
        " ELSE concat({2}, array_join(split({0}, ''), {2}), {2})",
    ),
)
scalar(
    "split_part",
    "varchar, varchar, bigint -> varchar",
    *_of_all(
        3,
        "WHEN {2} < 1 THEN error('INVALID_ARGUMENT: split_part takes positions from 1')"
        " WHEN {1} = '' THEN nullif(substr({0}, least({2}, length({0}) + 1), 1), '')"
        " WHEN {2} > (length({0}) - length(replace({0}, {1}, ''))) // length({1}) + 1 THEN NULL"
        " ELSE split_part({0}, {1}, {2})",
        "WHEN {2} < 1 THEN raise_error('INVALID_ARGUMENT: split_part takes positions from 1')"
        " WHEN {1} = ''"
        " THEN nullif(substr({0}, CAST(least({2}, length({0}) + 1) AS INT), 1), '')"
        " WHEN {2} > (length({0}) - length(replace({0}, {1}, ''))) div length({1}) + 1 THEN NULL"
        " ELSE split_part({0}, {1}, CAST({2} AS INT))",
    ),
)
for _name in ("lpad", "rpad"):
    _wrong = f"('INVALID_ARGUMENT: {_name} needs a length of at least 0 and text to pad with')"
    scalar(
        _name,
        "varchar, bigint, varchar -> varchar",
        *_of_all(
            3,
            f"WHEN {{1}} < 0 OR {{2}} = '' THEN error{_wrong}"
            f" ELSE {_name}({{0}}, CAST({{1}} AS INTEGER), {{2}})",
            f"WHEN {{1}} < 0 OR {{2}} = '' THEN raise_error{_wrong}"
            f" ELSE {_name}({{0}}, CAST({{1}} AS INT), {{2}})",
        ),
    )
scalar(
    "concat_ws",
    "varchar, varchar... -> varchar",
    "concat_ws({args})",
    "concat_ws({args})",
)
scalar(
    "concat_ws",
    "varchar, array(varchar) -> varchar",
    "substr(list_reduce(list_transform(list_filter({1}, lambda x: x IS NOT NULL),"
    " lambda x: {0} || x), lambda x, y: x || y, ''), length({0}) + 1)",
    "array_join({1}, {0})",
)
scalar(
    "reverse",
    "varchar -> varchar",
    "array_to_string(list_reverse(string_split({0}, '')), '')",
    "reverse({0})",
)
scalar("version", "-> varchar", "'seamline'")
by_duckdb_everywhere("translate", "varchar, varchar, varchar -> varchar", "translate({args})")
by_duckdb_everywhere(
    "split",
    "varchar, varchar -> array(varchar)",
    "(CASE WHEN {0} IS NULL OR {1} IS NULL THEN NULL"
    " WHEN {1} = '' THEN error('INVALID_ARGUMENT: split needs a delimiter')"
    " WHEN {0} = '' THEN [''] ELSE string_split({0}, {1}) END)",
)
kernel("split", "varchar, varchar, bigint -> array(varchar)", by_row(kernels.split))
kernel(
    "split_to_map",
    "varchar, varchar, varchar -> map(varchar, varchar)",
    by_row(kernels.split_to_map),
)
kernel(
    "split_to_multimap",
    "varchar, varchar, varchar -> map(varchar, array(varchar))",
    by_row(kernels.split_to_multimap),
)
kernel("strpos", "varchar, varchar, bigint -> bigint", by_row(kernels.position_of))
kernel("chr", "bigint -> varchar", by_row(kernels.character))
kernel("codepoint", "varchar -> integer", by_row(kernels.code_point))
kernel("char2hexint", "varchar -> varchar", by_row(kernels.utf16_digits))
kernel("$overlay", "varchar, varchar, bigint -> varchar", by_row(kernels.overlay))
kernel("$overlay", "varchar, varchar, bigint, bigint -> varchar", by_row(kernels.overlay))
kernel("title_case", "varchar -> varchar", by_row(kernels.title_case))
kernel("soundex", "varchar -> varchar", by_row(kernels.soundex))
kernel("luhn_check", "varchar -> boolean", by_row(kernels.luhn_check))
kernel("hamming_distance", "varchar, varchar -> bigint", by_row(kernels.hamming_distance))
kernel("levenshtein_distance", "varchar, varchar -> bigint", by_row(kernels.levenshtein_distance))
for _form in ("nfc", "nfd", "nfkc", "nfkd"):
    kernel(f"$normalize_{_form}", "varchar -> varchar", by_row(kernels.normalizer(_form.upper())))
kernel("format", "varchar, any... -> varchar", formats.compute)
for _type in ("bigint", "double"):
    kernel("format_number", f"{_type} -> varchar", by_row(kernels.with_unit))
for _name in ("parse_data_size", "parse_presto_data_size"):
    kernel(_name, "varchar -> decimal(38,0)", by_row(kernels.data_size))
