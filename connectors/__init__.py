"""The outside world behind Protocols: Kafka, Iceberg, DuckDB, Spark, and in-memory ones."""
