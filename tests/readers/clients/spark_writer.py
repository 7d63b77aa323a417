"""Runs statements in a Spark of its own.

Usage: python -m readers.clients.spark_writer '{"conf": {…}, "statements": […]}'
"""

from __future__ import annotations

import json
import sys

from pyspark.sql import SparkSession

told = json.loads(sys.argv[1])
builder = SparkSession.builder.master("local[1]")
for name, value in told["conf"].items():
    builder = builder.config(name, value)
session = builder.getOrCreate()
for statement in told["statements"]:
    session.sql(statement).collect()
session.stop()
