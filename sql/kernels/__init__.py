"""What neither engine computes as the other: functions over Arrow arrays, run by both engines.

`kernel` says what one is; the other modules have them by subject. DuckDB calls a kernel as a
function of its own process, Spark in its Python workers.
"""
