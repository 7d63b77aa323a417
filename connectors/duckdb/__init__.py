"""DuckDB, the engine for small reads: fresh, locked down, each in a process of its own."""
