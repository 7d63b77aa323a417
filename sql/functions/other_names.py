"""Names of functions in other databases, and what to write for each of them here.

    COLUMNS         what to write for a word that is no column here
    REPLACEMENTS    an expression that does the same
    REASONS         names that nothing replaces as a whole, and the remedy

The expressions are of columns `x` and `y` (varchar), `n` (bigint), `r` (double), `t` and `u`
(timestamp), `d` (date), `j` (json), `a` (array) and `b` (boolean).
"""

from __future__ import annotations

from collections.abc import Mapping

_LISTAGG = "listagg(x, ',') WITHIN GROUP (ORDER BY y)"
_PERCENTILE = "approx_percentile(r, 0.5)"

_NOW = "current_timestamp"

COLUMNS: Mapping[str, str] = {
    **dict.fromkeys(("sysdate", "systimestamp", "getdate"), _NOW),
    "rownum": "row_number() OVER ()",
}
"""What to write for a word that other databases take for a column, by the word in lower case."""

REPLACEMENTS: Mapping[str, str] = {
    # nulls and choices
    **dict.fromkeys(("ifnull", "nvl", "isnull"), "coalesce(x, y)"),
    "nvl2": "if(x IS NOT NULL, y, 'z')",
    "iif": "if(b, x, y)",
    "decode": "CASE x WHEN 'a' THEN 1 WHEN 'b' THEN 2 ELSE 3 END",
    "choose": "element_at(ARRAY[x, y], 1)",
    "nullifzero": "nullif(n, 0)",
    # text
    **dict.fromkeys(("string_agg", "group_concat", "wm_concat"), _LISTAGG),
    "len": "length(x)",
    **dict.fromkeys(("ucase", "toupper"), "upper(x)"),
    **dict.fromkeys(("lcase", "tolower"), "lower(x)"),
    **dict.fromkeys(("charindex", "instr", "locate"), "strpos(x, y)"),
    "left": "substr(x, 1, 3)",
    "right": "substr(x, -3)",
    **dict.fromkeys(("mid", "substring_index", "substrb"), "substr(x, 2, 3)"),
    "initcap": "upper(substr(x, 1, 1)) || lower(substr(x, 2))",
    "startswith": "starts_with(x, y)",
    "endswith": "ends_with(x, y)",
    **dict.fromkeys(("regexp_matches", "regexp_contains", "rlike"), "regexp_like(x, '^a.*z$')"),
    "regexp_substr": "regexp_extract(x, '[0-9]+')",
    **dict.fromkeys(("string_split", "string_to_array", "split_to_array"),
                    "split(x, ',')"),
    "replicate": "rpad('', 3, x)",
    "space": "rpad('', 3, ' ')",
    **dict.fromkeys(("ascii", "ord", "unicode"), "codepoint(CAST(substr(x, 1, 1) AS varchar(1)))"),
    "base64": "to_base64(to_utf8(x))",
    "unbase64": "from_utf8(from_base64(x))",
    "hex": "to_hex(to_utf8(x))",
    "unhex": "from_hex(x)",
    **dict.fromkeys(("printf", "format_string", "sprintf"), "format('%s %d', x, n)"),
    # time
    **dict.fromkeys(("getdate", "sysdate", "sysdatetime", "getutcdate"), _NOW),
    **dict.fromkeys(("curdate", "today"), "current_date"),
    "curtime": "current_time",
    **dict.fromkeys(("strftime", "to_char", "formatdatetime", "dateformat"),
                    "date_format(t, '%Y-%m-%d')"),
    **dict.fromkeys(("strptime", "str_to_date", "to_timestamp", "parse_timestamp"),
                    "date_parse(x, '%Y-%m-%d')"),
    "to_date": "CAST(date_parse(x, '%Y-%m-%d') AS date)",
    **dict.fromkeys(("dateadd", "timestampadd", "date_sub", "adddate", "subdate"),
                    "date_add('day', 1, t)"),
    "add_months": "date_add('month', 1, t)",
    **dict.fromkeys(("datediff", "timestampdiff", "months_between", "age"),
                    "date_diff('day', t, u)"),
    **dict.fromkeys(("datepart", "date_part", "datename"), "extract(YEAR FROM t)"),
    **dict.fromkeys(("datetrunc", "time_bucket", "tumble", "timestamp_trunc"),
                    "date_trunc('hour', t)"),
    **dict.fromkeys(("tostartofhour", "tostartofday", "tostartofminute", "tostartofmonth"),
                    "date_trunc('hour', t)"),
    **dict.fromkeys(("unix_timestamp", "epoch", "to_epoch", "epoch_s"), "to_unixtime(t)"),
    **dict.fromkeys(("to_timestamp_s", "fromunixtimestamp"),
                    "from_unixtime(n)"),
    **dict.fromkeys(("epoch_ms", "unix_millis"), "to_unixtime(t) * 1000"),
    **dict.fromkeys(("dayname", "day_name"), "date_format(t, '%W')"),
    **dict.fromkeys(("monthname", "month_name"), "date_format(t, '%M')"),
    **dict.fromkeys(("dayofweek", "weekday", "isodow"), "day_of_week(t)"),
    "dayofyear": "day_of_year(t)",
    "weekofyear": "week_of_year(t)",
    **dict.fromkeys(("last_day", "eomonth"), "last_day_of_month(d)"),
    **dict.fromkeys(("make_date", "datefromparts"), "CAST('2026-01-31' AS date)"),
    # aggregates
    **dict.fromkeys(("percentile_cont", "percentile_disc", "percentile", "quantile", "median",
                     "quantile_cont", "quantile_disc", "percentile_approx", "approx_quantile"),
                    _PERCENTILE),
    **dict.fromkeys(("count_distinct", "uniq", "uniqexact"), "count(DISTINCT x)"),
    **dict.fromkeys(("approx_count_distinct", "apx_count_distinct", "ndv"), "approx_distinct(x)"),
    "countif": "count_if(b)",
    **dict.fromkeys(("sumif", "sum_if"), "sum(n) FILTER (WHERE b)"),
    **dict.fromkeys(("avgif", "avg_if"), "avg(n) FILTER (WHERE b)"),
    **dict.fromkeys(("argmax", "arg_max"), "max_by(x, n)"),
    **dict.fromkeys(("argmin", "arg_min"), "min_by(x, n)"),
    **dict.fromkeys(("collect_list", "list", "grouparray"), "array_agg(x)"),
    **dict.fromkeys(("collect_set", "groupuniqarray"), "array_agg(DISTINCT x)"),
    **dict.fromkeys(("first", "anylast"), "any_value(x)"),
    **dict.fromkeys(("bool_xor", "logical_and"), "bool_and(b)"),
    "logical_or": "bool_or(b)",
    # numbers
    "trunc": "truncate(r)",
    "loge": "ln(r)",
    **dict.fromkeys(("sqr", "square"), "power(r, 2)"),
    **dict.fromkeys(("toint32", "toint64", "to_number", "cint", "safe_cast", "tofloat64"),
                    "TRY_CAST(x AS bigint)"),
    **dict.fromkeys(("tostring", "str", "cstr"), "CAST(n AS varchar)"),
    "todate": "CAST(t AS date)",
    # arrays, maps and JSON
    **dict.fromkeys(("array_length", "array_size", "list_length"),
                    "cardinality(a)"),
    **dict.fromkeys(("array_contains", "list_contains", "has", "array_has"), "contains(a, n)"),
    **dict.fromkeys(("array_append", "list_append"), "a || n"),
    "array_to_string": "array_join(a, ',')",
    **dict.fromkeys(("list_sort", "sort_array"), "array_sort(a)"),
    **dict.fromkeys(("generate_series", "generate_array"), "sequence(1, n)"),
    **dict.fromkeys(("get_json_object", "json_extract_string", "jsonextractstring",
                     "json_extract_path_text", "json_unquote"),
                    "json_extract_scalar(j, '$.field')"),
    **dict.fromkeys(("to_json", "to_jsonb", "tojsonstring"), "json_format(CAST(a AS json))"),
    **dict.fromkeys(("parse_json", "from_json"), "json_parse(x)"),
    **dict.fromkeys(("json_array_elements", "jsonb_array_elements", "json_each"),
                    "CAST(j AS array(json))"),
    # the session
    **dict.fromkeys(("uuid_generate_v4", "gen_random_uuid", "newid", "generateuuidv4"), "uuid()"),
    "current_database": "current_catalog",
    **dict.fromkeys(("user", "session_user", "system_user", "currentuser"), "current_user"),
}  # fmt: skip
"""An expression of the same meaning, by the name in lower case."""

REASONS: Mapping[str, str] = {
    **dict.fromkeys(
        ("approx_set", "empty_approx_set", "merge"),
        "there is no type HyperLogLog; approx_distinct is exact",
    ),
    **dict.fromkeys(
        (
            "tdigest_agg",
            "qdigest_agg",
            "value_at_quantile",
            "values_at_quantiles",
            "quantile_at_value",
        ),
        "there are no digest types; use approx_percentile",
    ),
    **dict.fromkeys(
        (
            "make_set_digest",
            "merge_set_digest",
            "jaccard_index",
            "intersection_cardinality",
            "hash_counts",
        ),
        "there is no type SetDigest; count with INTERSECT and UNION",
    ),
    "variant_is_null": "a variant is read as json; use x IS NULL",
    "word_stem": "stemmers disagree; stem words before they are written",
    **dict.fromkeys(
        ("spooky_hash_v2_32", "spooky_hash_v2_64"), "use xxhash64, murmur3 or a digest"
    ),
    **dict.fromkeys(
        ("bar", "color", "render", "rgb"),
        "terminal colours are up to the program that shows the rows",
    ),
    **dict.fromkeys(
        ("learn_classifier", "learn_regressor", "classify", "regress", "features"),
        "models are not trained in queries",
    ),
    **dict.fromkeys(
        (
            "st_point",
            "st_geometryfromtext",
            "st_contains",
            "st_distance",
            "st_area",
            "st_astext",
            "great_circle_distance",
            "to_geojson_geometry",
            "bing_tile",
            "bing_tile_at",
            "geometry_union",
            "spatial_partitioning",
        ),
        "there are no geometry types",
    ),
    "json_table": "use UNNEST(CAST(json_extract(…) AS array(…)))",
    "objectid": "there is no type ObjectId",
    "exclude_columns": "name the columns",
    **dict.fromkeys(("pg_sleep", "sleep"), "statements do not wait"),
}
"""What to do instead, by the name in lower case."""
