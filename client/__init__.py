"""Seamline: a Kafka topic and its Iceberg copy as one table."""
