"""Goal: what Spark fails with is a name and a sentence, however many lines Spark makes of it.

Method: texts as Spark writes them, of Python's workers, of Java and of servers, of which the cause
must be all that is left.
"""

from __future__ import annotations

import pytest

from seamline.connectors.spark.errors import named_error
from seamline.errors import (
    CATALOG_ACCESS_DENIED,
    CATALOG_UNAVAILABLE,
    COMMIT_CONFLICT,
    KAFKA_UNAVAILABLE,
    LOG_TRIMMED,
    SPARK_FAILED,
    ErrorCode,
)

JAVA = "".join(f"\n\tat org.apache.spark.Some{n}.run(Some.scala:{n})" for n in range(80))
PYTHON = "".join(f'\n  File "worker.py", line {n}, in main\n    process()' for n in range(80))
ICEBERG = "org.apache.iceberg.exceptions"
DRIVER = "Driver stacktrace:" + JAVA


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        (
            "Job aborted: org.apache.spark.api.python.PythonException: Traceback (most recent call "
            f"last):{PYTHON}\nValueError: no such thing\n{JAVA}\n\n{DRIVER}",
            SPARK_FAILED,
            "ValueError: no such thing",
        ),
        (
            f"Traceback (most recent call last):{PYTHON}\n"
            f"seamline.errors.SeamlineError: LOG_TRIMMED: t-0 starts at 7\nhint: none\n{JAVA}",
            LOG_TRIMMED,
            "t-0 starts at 7",
        ),
        (
            f"java.lang.IllegalStateException: it broke{JAVA}\nCaused by: more{JAVA}",
            SPARK_FAILED,
            "more",
        ),
        (
            f"Found conflicting files that can contain rows{JAVA}",
            COMMIT_CONFLICT,
            "Found conflicting files that can contain rows",
        ),
        (
            "An error occurred while calling o95.overwrite.: Job aborted: "
            f"org.apache.kafka.common.errors.TimeoutException: Timeout of 20000ms expired{JAVA}",
            KAFKA_UNAVAILABLE,
            "Timeout of 20000ms expired",
        ),
        (f"it is gone\n\nJVM stacktrace:{JAVA}", SPARK_FAILED, "it is gone"),
        (
            f"An error occurred while calling o96.overwrite.\n: {ICEBERG}.NotAuthorizedException: "
            f"Not authorized: no such token{JAVA}\n\tSuppressed: org.apache.spark.util.Utils$"
            "OriginalTryStackTraceException: Full stacktrace of original doTryWithCallerStacktrace "
            f"caller{JAVA}\n\t\t... 23 more\n",
            CATALOG_ACCESS_DENIED,
            "Not authorized: no such token",
        ),
        (
            f"({ICEBERG}.NotAuthorizedException) Not authorized: no such token",
            CATALOG_ACCESS_DENIED,
            "Not authorized: no such token",
        ),
        (
            f"{ICEBERG}.RESTException: Unable to process (code: 419, type: Error): old token{JAVA}",
            CATALOG_ACCESS_DENIED,
            "Unable to process (code: 419, type: Error): old token",
        ),
        (
            f"{ICEBERG}.RESTException: Error occurred while processing POST request{JAVA}\n"
            "Caused by: org.apache.hc.core5.http.NoHttpResponseException: "
            f"127.0.0.1:1 failed to respond{JAVA}",
            CATALOG_UNAVAILABLE,
            "127.0.0.1:1 failed to respond",
        ),
    ],
    ids=[
        *("Python", "ours", "Java", "conflict", "Kafka", "Connect"),
        *("refused token", "refused by Connect", "old token", "catalog away"),
    ],
)
def test_a_trace_is_no_message(text: str, code: ErrorCode, message: str) -> None:
    found = named_error(RuntimeError(text))
    assert (found.code, found.message) == (code, message)


@pytest.mark.parametrize(
    "text",
    [
        "Found conflicting files that can contain records matching partitions [a=1]: [f.parquet]",
        "Found conflicting deleted files that can contain records matching a >= 1: [f.parquet]",
        "Found conflicting deleted files that can apply to records matching a >= 1: [f.parquet]",
        "Found new conflicting delete files that can apply to records matching a >= 1: [f.parquet]",
        "Found concurrently added DV for f.parquet: DV{location=d.puffin}",
        "Cannot commit, found new delete for replaced data file: GenericDataFile{}",
        "Cannot commit, found new position delete for replaced data file: GenericDataFile{}",
        "Cannot commit, missing data files: [f.parquet]",
        "Missing required files to delete: f.parquet",
        "Cannot add snapshot with sequence number 17 older than last sequence number 17",
        "Cannot add a snapshot, first-row-id is behind table next-row-id: 3 < 7",
    ],
)
def test_what_another_commit_prevents_is_a_conflict(text: str) -> None:
    """Iceberg says so in many ways, and each time the loser may simply try again."""
    error = RuntimeError(f"(org.apache.iceberg.exceptions.ValidationException) {text}{JAVA}")
    assert named_error(error).code is COMMIT_CONFLICT
