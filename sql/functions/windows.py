"""Functions that require OVER."""

from __future__ import annotations

from seamline.sql.functions.registry import window

for _name in ("row_number", "rank", "dense_rank"):
    window(_name, "-> bigint", f"{_name}()", f"{_name}()")
for _name in ("percent_rank", "cume_dist"):
    window(_name, "-> double", f"{_name}()")
window("ntile", "bigint -> bigint", "ntile({0})", "ntile(CAST({0} AS INT))")
for _name in ("lag", "lead"):
    for _signature, _arguments in (
        ("T -> T", "{0}"),
        ("T, bigint -> T", "{0}, {1}"),
        ("T, bigint, T -> T", "{0}, {1}, {2}"),
    ):
        window(
            _name,
            _signature,
            f"{_name}({_arguments}{{nulls}}){{over}}",
            f"{_name}({_arguments.replace('{1}', 'CAST({1} AS INT)')}){{nulls}}{{over}}",
        )
for _name in ("first_value", "last_value"):
    window(_name, "T -> T", f"{_name}({{0}}{{nulls}}){{over}}", f"{_name}({{0}}){{nulls}}{{over}}")
window(
    "nth_value",
    "T, bigint -> T",
    "nth_value({0}, {1}{nulls}){over}",
    "nth_value({0}, CAST({1} AS INT)){nulls}{over}",
)
