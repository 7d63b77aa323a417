"""`python -m tpc`: TPC-H and TPC-DS on both engines, with more and more of every table tiered.

All records are produced first; the tables are then tiered step by step, and at each step every
query must answer what DuckDB alone answers over all rows. Exits with 1 when one does not.
"""

from __future__ import annotations

import argparse
import pathlib
import shutil
import sys
import tempfile
import time

from support.gateway import Gateway
from support.stack import Stack

from seamline.errors import SeamlineError
from seamline.gateway import names
from seamline.gateway.catalogs import resolution
from seamline.gateway.commands import tables
from seamline.gateway.deadline import no_deadline
from seamline.gateway.tiering.step import tier_once
from seamline.seam.boundary import boundary_of
from tpc.answers import difference
from tpc.suites import SUITES, Suite, Table

ENGINES = ("duckdb", "spark")
HOT = (100, 50, 5, 0)
_TOLD_EVERY = 20
_PARTITIONS = 2


def main() -> int:
    """Runs what is requested; returns the exit status."""
    parser = argparse.ArgumentParser(prog="tpc", description=__doc__)
    parser.add_argument("--suite", action="append", choices=SUITES)
    parser.add_argument("--engine", action="append", choices=ENGINES)
    parser.add_argument("--hot", action="append", type=int, choices=HOT)
    parser.add_argument("--query", action="append", type=int)
    parser.add_argument("--scale", type=float, default=0.01)
    asked = parser.parse_args()
    failed = 0
    directory = pathlib.Path(tempfile.mkdtemp(prefix="seamline-tpc-"))
    try:
        say("starting a broker and Spark …")
        stack = Stack(directory / "stack")
        gateway = Gateway(stack.config)
        try:
            for name in asked.suite or SUITES:
                run = Run(stack, gateway, Suite(name, asked.scale), asked.query)
                run.produce()
                for hot in asked.hot or HOT:
                    run.tier(hot)
                    failed += sum(run.ask(hot, engine) for engine in asked.engine or ENGINES)
        finally:
            gateway.close()
            stack.close()
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    return 1 if failed else 0


class Run:
    """One suite over tables of its own.

    Args:
        stack: Broker, catalog and Spark.
        gateway: Answers the queries.
        suite: The suite.
        only: Numbers of the queries to ask; all by default.
    """

    def __init__(
        self, stack: Stack, gateway: Gateway, suite: Suite, only: list[int] | None
    ) -> None:
        self._stack = stack
        self._gateway = gateway
        self._suite = suite
        self._tables = suite.tables
        self._queries = {n: q for n, q in suite.queries.items() if not only or n in only}
        self._wanted = {number: suite.answer(query) for number, query in self._queries.items()}

    def produce(self) -> None:
        """Makes topics and tables, and produces every row."""
        total = sum(table.rows for table in self._tables)
        say(f"{self._suite.name}: {len(self._tables)} tables, {total:,} rows …")
        for table in self._tables:
            topic = f"{self._suite.name}.{table.name}"
            self._stack.create_topic(topic, _PARTITIONS)
            definition = tables.TableDefinition(
                name=self._name(table),
                topic=topic,
                cluster="default",
                columns=tables.parse_fields(table.columns),
            )
            tables.create(self._stack.connections, definition, no_deadline())
            self._stack.produce(topic, self._suite.records(table))

    def tier(self, hot: int) -> None:
        """Tiers every table until no more than that many percent of it are hot."""
        for table in self._tables:
            left = table.rows - table.rows * hot // 100 - self._tiered(table)
            if left > 0:
                log = self._stack.connections.log("default")
                tiered = self._stack.tier_table(table.name, self._suite.name)
                tier_once(tiered, log, no_deadline(), records_max=left)

    def ask(self, hot: int, engine: str) -> int:
        """Asks every query; returns how many were not answered as DuckDB alone does."""
        began, wrong, total = time.monotonic(), 0, len(self._queries)
        what = f"{self._suite.name} {hot:>3} % hot, {engine}"
        for place, (number, query) in enumerate(self._queries.items(), 1):
            if problem := self._problem(number, query, engine):
                wrong += 1
                print(f"    query {number}: {problem[:300]}", flush=True)
            if place % _TOLD_EVERY == 0:
                say(f"{what}: {place} of {total} asked …")
        say(f"{what}: {total - wrong}/{total}  ({time.monotonic() - began:.0f} s)")
        return wrong

    def _problem(self, number: int, query: str, engine: str) -> str:
        try:
            found = self._gateway.rows(query, engine, dialect="duckdb", schema=self._suite.name)
        except SeamlineError as error:
            return f"{error.code.name}: {error.message}"
        return difference(found, self._wanted[number])

    def _tiered(self, table: Table) -> int:
        state = self._stack.load(table.name, self._suite.name).state
        return sum(boundary_of(state, state.current_snapshot_id).next.values())

    def _name(self, table: Table) -> names.TableName:
        path = (self._suite.name, table.name)
        return resolution.resolve(
            path, resolution.session(self._stack.config), self._stack.connections
        )


def say(text: str) -> None:
    """A line with the time in front."""
    print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
