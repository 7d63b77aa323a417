"""Which engine runs a plan, and why."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from seamline.errors import NOT_SUPPORTED, TAIL_TOO_LARGE, SeamlineError
from seamline.planners.estimate import Estimate
from seamline.seam.files import ColdPlan

AUTO = "auto"
DUCKDB = "duckdb"
SPARK = "spark"
ENGINES = (AUTO, DUCKDB, SPARK)


@dataclasses.dataclass(frozen=True, slots=True)
class Limits:
    """From which size on a read is large.

    Attributes:
        duckdb_cold_bytes_max: Files larger than this together go to Spark.
        duckdb_tail_rows_max: A longer tail goes to Spark, whose executors read it themselves.
        spark: Whether there is a Spark to go to.
    """

    duckdb_cold_bytes_max: int
    duckdb_tail_rows_max: int
    spark: bool = True


@dataclasses.dataclass(frozen=True, slots=True)
class Route:
    """The engine, and the reason as EXPLAIN and the receipt give it.

    Attributes:
        engine: `duckdb` or `spark`.
        reason: Why.
        reads_log: Whether the engine's workers read every tail from the log themselves.
    """

    engine: str
    reason: str
    reads_log: bool = False


def route(asked: str, estimate: Estimate, cold: Mapping[str, ColdPlan], limits: Limits) -> Route:
    """Chooses the engine.

    Args:
        asked: What the request asks for: `auto`, `duckdb` or `spark`.
        estimate: What the plan reads.
        cold: Files by scan id.
        limits: What is large.

    Raises:
        SeamlineError: when the engine asked for cannot read the plan exactly, or the only one that
            can is not there.
    """
    unsupported = next((p.unsupported for p in cold.values() if p.unsupported), None)
    only_duckdb = next((p.only_duckdb for p in cold.values() if p.only_duckdb), None)
    if only_duckdb is not None:
        if asked == SPARK or unsupported is not None:
            raise _neither(only_duckdb, unsupported)
        limits = dataclasses.replace(limits, spark=False)
    if asked == SPARK:
        return _spark("asked for", limits)
    if unsupported is not None:
        if asked == DUCKDB:
            raise SeamlineError(
                NOT_SUPPORTED,
                f"DuckDB cannot read {unsupported} exactly",
                hint="Leave the engine open, or ask for 'spark'.",
            )
        return _spark(f"{unsupported}, which DuckDB cannot read exactly", limits)
    if estimate.hot_rows_unread > limits.duckdb_tail_rows_max:
        reason = (
            f"{estimate.hot_rows_unread:,} offsets of tail that are not cached here, over "
            f"{limits.duckdb_tail_rows_max:,}"
        )
        wants_duckdb = asked == DUCKDB or not limits.spark
        if wants_duckdb and not estimate.hot_fits_cache:
            raise SeamlineError(TAIL_TOO_LARGE, reason)
        if not wants_duckdb:
            return _spark(reason, limits)
    if asked == DUCKDB:
        return Route(DUCKDB, "asked for")
    if estimate.cold_bytes > limits.duckdb_cold_bytes_max and limits.spark:
        return _spark(
            f"{estimate.cold_bytes:,} bytes of files, over {limits.duckdb_cold_bytes_max:,}", limits
        )
    if only_duckdb is not None:
        return Route(DUCKDB, f"{only_duckdb}, which Spark cannot read")
    return Route(
        DUCKDB,
        f"small: {estimate.cold_bytes:,} bytes of files, {estimate.hot_rows:,} offsets of tail",
    )


def may_run_on_duckdb(asked: str, cold_bytes: int, limits: Limits) -> bool:
    """Whether a plan of files so large may be DuckDB's, which needs the files' own schemas.

    Args:
        asked: What the request asks for.
        cold_bytes: Size of the files.
        limits: What is large.
    """
    if asked != AUTO or not limits.spark:
        return asked != SPARK
    return cold_bytes <= limits.duckdb_cold_bytes_max


def _neither(only_duckdb: str, unsupported: str | None) -> SeamlineError:
    """The error of files that the engine asked for, or any one, cannot read."""
    if unsupported is None:
        return SeamlineError(
            NOT_SUPPORTED,
            f"Spark cannot read {only_duckdb}",
            hint="Leave the engine open, or ask for 'duckdb'.",
        )
    return SeamlineError(
        NOT_SUPPORTED,
        f"DuckDB cannot read {unsupported} exactly, and Spark cannot read {only_duckdb}",
    )


def _spark(reason: str, limits: Limits) -> Route:
    if not limits.spark:
        raise SeamlineError(
            NOT_SUPPORTED,
            f"this needs Spark ({reason}), and the gateway has none",
            hint="Install the extra seamline[spark], or set spark.remote.",
        )
    return Route(SPARK, reason)
