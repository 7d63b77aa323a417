"""Kernels: functions over Arrow arrays that both engines run, where their own results differ.

`kernel` defines what a kernel is; the other modules contain them by subject. DuckDB calls a kernel
in its own process, Spark in its Python workers.
"""
