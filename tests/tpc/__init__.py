"""The queries of TPC-H and TPC-DS over tables in both tiers, judged by DuckDB alone."""
