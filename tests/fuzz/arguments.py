"""Arguments that a function can do something with: patterns, paths, formats, counts, units."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

LEFT_OUT = frozenset(
    {
        "random", "rand", "uuid", "shuffle", "now", "current_timezone",  # other values each time
        "approx_percentile", "any_value", "arbitrary", "numeric_histogram",  # any of several
        "grouping", "listagg", "array_agg", "map_agg", "multimap_agg", "map_union", "histogram",
        "max_by", "min_by",  # queries.py gives these their order
    }
)  # fmt: skip
"""Functions whose calls are not made from their signatures."""

_REGULAR_EXPRESSIONS = (
    "'a'",
    "'[a-z]+'",
    "'(a)(b)?'",
    "'^.'",
    "'(?i)A'",
    "'\\d+'",
    "''",
    "'x*'",
    "','",
)
_JSON_PATHS = ("'$'", "'$.a'", "'$.a.b'", "'$[0]'", "'$.a.b[1]'", "'$.nope'")
_JSON = ("'[1, 2.50, null]'", '\'{"a": {"b": [1, null, "x"]}}\'', "'1'", "'\"t\"'", "'{'")
_MYSQL_FORMATS = ("'%Y-%m-%d'", "'%H:%i:%s.%f'", "'%a %b %e %Y'", "'%j %v %x'", "'%y%%'")
_JODA_FORMATS = ("'yyyy-MM-dd'", "'HH:mm:ss.SSS'", "'EEE, d MMM yyyy'", "'xxxx-ww-e D'")
_SMALL = ("0", "1", "2", "3", "5")
_PLACES = ("1", "2", "-1", "3", "0")
_DIGITS = ("0", "1", "2", "-1", "5")
_URLS = (
    "'https://user@example.com:8080/a%20b/c?x=1&y=%C3%A9#frag'", "'http://example.com'", "'a b'",
    "''",
)  # fmt: skip
_BASES = ("2", "10", "16", "36")
_ENCODED = ("'YWJj'", "'00ff'", "'MFRGG==='", "'ff'", "''")
_MOMENTS = (
    "'2024-02-29T01:02:03.456Z'",
    "'2024-02-29'",
    "'2024-W09-4'",
    "'2024-060'",
    "'2024-02-29T01:02:03+05:30'",
)

HINTS: Mapping[tuple[str, int], Sequence[str]] = {
    **{
        (f"regexp_{name}", 1): _REGULAR_EXPRESSIONS
        for name in ("like", "extract", "extract_all", "replace", "split", "count", "position")
    },
    ("regexp_extract", 2): ("0", "1"),
    ("regexp_extract_all", 2): ("0", "1"),
    ("regexp_replace", 2): ("'<$0>'", "''", "'-'"),
    ("regexp_position", 2): _SMALL[1:],
    ("regexp_position", 3): _SMALL[1:],
    **{(name, 1): _JSON_PATHS for name in ("json_extract", "json_extract_scalar", "json_size")},
    **{
        (name, 0): _JSON
        for name in (
            "json_extract", "json_extract_scalar", "json_size", "json_parse", "json_array_length",
            "json_array_contains", "json_array_get", "is_json_scalar", "json_format",
        )
    },
    ("date_format", 1): _MYSQL_FORMATS,
    ("date_parse", 0): ("'2024-02-29'", "'2024-01-01'"),
    ("date_parse", 1): ("'%Y-%m-%d'",),
    ("format_datetime", 1): _JODA_FORMATS,
    ("parse_datetime", 0): ("'2024-02-29'",),
    ("parse_datetime", 1): ("'yyyy-MM-dd'",),
    ("from_iso8601_timestamp", 0): _MOMENTS,
    ("from_iso8601_date", 0): ("'2024-02-29'", "'2024-W09-4'", "'2024-060'"),
    ("parse_duration", 0): ("'3.5m'", "'42.0ms'", "'1.5d'"),
    ("parse_data_size", 0): ("'1B'", "'2.3MB'"),
    ("from_unixtime", 0): ("0e0", "1709168523.456e0", "-1.5e0"),
    ("human_readable_seconds", 0): ("96e0", "3762e0", "56363463e0"),
    **{(name, 1): _SMALL for name in ("lpad", "rpad", "repeat", "trim_array", "chr")},
    **{(name, 2): ("'x'", "'yz'") for name in ("lpad", "rpad")},
    **{(name, 1): _DIGITS for name in ("round", "truncate")},
    **{(name, 1): _PLACES for name in ("substr", "substring")},
    **{(name, 2): _SMALL for name in ("substr", "substring", "slice")},
    ("slice", 1): ("1", "2", "-1"),
    ("element_at", 1): _PLACES,
    ("ngrams", 1): _SMALL[1:],
    ("chr", 0): ("65", "233", "128512", "0"),
    ("codepoint", 0): ("'a'", "'é'", "'👩'"),
    ("strpos", 2): ("1", "2", "-1"),
    ("split_part", 2): _SMALL[1:],
    ("split", 1): ("','", "'a'"),
    ("split", 2): _SMALL[1:],
    ("split_part", 1): ("','", "'a'"),
    ("split_to_map", 0): ("'a=1,b=2'", "''"),
    ("split_to_map", 1): ("','",),
    ("split_to_map", 2): ("'='",),
    ("split_to_multimap", 0): ("'a=1,b=2,a=3'",),
    ("split_to_multimap", 1): ("','",),
    ("split_to_multimap", 2): ("'='",),
    ("sequence", 0): _SMALL,
    ("sequence", 1): _SMALL,
    ("sequence", 2): ("1", "2"),
    **{
        (f"url_extract_{name}", 0): _URLS
        for name in ("host", "path", "port", "protocol", "query", "fragment", "parameter")
    },
    ("url_extract_parameter", 1): ("'x'", "'y'"),
    ("url_decode", 0): ("'a%20b+c'", "'%C3%A9'"),
    ("from_base", 1): _BASES,
    ("to_base", 1): _BASES,
    ("from_base", 0): ("'11'", "'101'"),
    **{
        (f"from_{name}", 0): _ENCODED for name in ("base32", "base64", "base64url", "hex")
    },
    ("from_big_endian_32", 0): ("X'000000ff'",),
    ("from_big_endian_64", 0): ("X'00000000000000ff'",),
    ("from_ieee754_32", 0): ("X'3f800000'",),
    ("from_ieee754_64", 0): ("X'3ff0000000000000'", "X'7ff8000000000000'"),
    ("hamming_distance", 0): ("'abc'", "'xyz'"),
    ("hamming_distance", 1): ("'abd'",),
    ("bit_count", 1): ("8", "32", "64"),
    ("width_bucket", 1): ("0e0",),
    ("width_bucket", 2): ("10e0",),
    ("width_bucket", 3): ("5",),
    ("normal_cdf", 1): ("1e0", "2.5e0"),
    ("from_unixtime_nanos", 0): ("0", "1709168523456789000", "-1000"),
    ("bitwise_left_shift", 1): _SMALL,
    ("bitwise_right_shift", 1): _SMALL,
    ("bitwise_right_shift_arithmetic", 1): _SMALL,
    ("luhn_check", 0): ("'79927398713'", "'79927398714'"),
    ("format", 0): ("'%s'",),
    ("from_utf8", 1): ("'?'",),
    ("log", 0): ("2e0", "10e0"),
}  # fmt: skip
"""By function and place; other arguments are any expression of the type."""

ONE_OF = {"width_bucket": ("double, double, double, bigint",)}
"""Functions of which only some signatures are called so."""
