"""Spark, the engine of large scans, and the tiering pipeline and maintenance on it."""
