"""Chooses the engine that runs a plan, and gives the reason."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from seamline.errors import NOT_SUPPORTED, TAIL_TOO_LARGE, SeamlineError
from seamline.planners.plan.estimate import Estimate
from seamline.seam.files import ColdPlan

AUTO = "auto"
DUCKDB = "duckdb"
SPARK = "spark"
ENGINES = (AUTO, DUCKDB, SPARK)
"""The engines that a request may ask for."""
GATEWAY = "gateway"
"""What a plan runs on that needs no engine: the gateway has its row already."""


@dataclasses.dataclass(frozen=True, slots=True)
class Limits:
    """Size limits above which a read is large.

    Attributes:
        duckdb_cold_bytes_max: Reads whose files exceed this total size go to Spark.
        duckdb_tail_rows_max: A longer tail goes to Spark, whose executors read it themselves.
        spark: Whether Spark is available.
    """

    duckdb_cold_bytes_max: int
    duckdb_tail_rows_max: int
    spark: bool = True


@dataclasses.dataclass(frozen=True, slots=True)
class Route:
    """The engine, and the reason for it as shown by EXPLAIN and the receipt.

    Attributes:
        engine: `duckdb`, `spark` or `gateway`.
        reason: Why this engine was chosen.
        reads_log: Whether the engine's workers read every tail from the log themselves.
    """

    engine: str
    reason: str
    reads_log: bool = False


def route(engine: str, estimate: Estimate, cold: Mapping[str, ColdPlan], limits: Limits) -> Route:
    """Chooses the engine.

    Args:
        engine: The engine the request asks for: `auto`, `duckdb` or `spark`.
        estimate: How much the plan reads.
        cold: Files by scan id.
        limits: The size limits.

    Raises:
        SeamlineError: when the requested engine cannot read the plan exactly, or the only engine
            that can is not available. TAIL_TOO_LARGE when the tail is too long for DuckDB, does not
            fit in the cache, and Spark was not an option.
    """
    unsupported = next((p.unsupported for p in cold.values() if p.unsupported), None)
    only_duckdb = next((p.only_duckdb for p in cold.values() if p.only_duckdb), None)
    if only_duckdb is not None:
        if engine == SPARK or unsupported is not None:
            raise _neither(only_duckdb, unsupported)
        limits = dataclasses.replace(limits, spark=False)
    if engine == SPARK:
        return _spark("asked for", limits)
    if unsupported is not None:
        if engine == DUCKDB:
            raise SeamlineError(
                NOT_SUPPORTED,
                f"DuckDB cannot read {unsupported} exactly",
                hint="Omit the engine, or use 'spark'.",
            )
        return _spark(f"{unsupported}, which DuckDB cannot read exactly", limits)
    if estimate.hot_rows_unread > limits.duckdb_tail_rows_max:
        reason = (
            f"{estimate.hot_rows_unread:,} offsets of tail that are not cached here, over "
            f"{limits.duckdb_tail_rows_max:,}"
        )
        wants_duckdb = engine == DUCKDB or not limits.spark
        if wants_duckdb and not estimate.hot_fits_cache:
            raise SeamlineError(TAIL_TOO_LARGE, reason)
        if not wants_duckdb:
            return _spark(reason, limits)
    if engine == DUCKDB:
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


def may_need_no_engine(engine: str, estimate: Estimate, limits: Limits) -> bool:
    """Whether a plan whose row needs no engine may do without one: nobody asked for an engine.

    A tail that only Spark can read needs one.
    """
    return engine == AUTO and estimate.hot_rows_unread <= limits.duckdb_tail_rows_max


def may_run_on_duckdb(engine: str, cold_bytes: int, limits: Limits) -> bool:
    """Whether a plan with such files may run on DuckDB, which needs the files' own schemas."""
    if engine != AUTO or not limits.spark:
        return engine != SPARK
    return cold_bytes <= limits.duckdb_cold_bytes_max


def _neither(only_duckdb: str, unsupported: str | None) -> SeamlineError:
    """Returns the error for files that the requested engine, or every engine, cannot read."""
    if unsupported is None:
        return SeamlineError(
            NOT_SUPPORTED,
            f"Spark cannot read {only_duckdb}",
            hint="Omit the engine, or use 'duckdb'.",
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
