"""DuckDB, the engine of small reads: fresh, locked down, in this process."""
