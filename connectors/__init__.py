"""The outside world behind Protocols: Kafka, Iceberg, DuckDB, Spark."""
