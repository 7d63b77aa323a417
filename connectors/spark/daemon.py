"""The process that Spark's Python workers are forked from, with what they run imported already.

Spark starts it as `python -m seamline.connectors.spark.daemon pyspark.worker`. Its own daemon
imports next to nothing, so each worker would spend a second of processor time on importing pandas,
Arrow and the decoder; here that is spent once. It must start no thread: threads do not survive a
fork.
"""

from __future__ import annotations

import importlib

MODULES = (
    "pandas",
    "pyarrow",
    "pyspark.sql.pandas.serializers",
    "pyspark.sql.pandas.types",
    "seamline.connectors.spark.decoding",
)
"""What workers import."""


def main() -> None:
    """Imports it, then serves Spark until Spark ends."""
    for name in MODULES:
        importlib.import_module(name)
    from pyspark import daemon  # reads from the command line which worker it is to run

    daemon.manager()


if __name__ == "__main__":
    main()
