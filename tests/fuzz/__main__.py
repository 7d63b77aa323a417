"""`python -m fuzz --seed 1 --count 20000`: random queries, run by everything that can answer them.

Prints what failed, made small, with its seed and a file to keep it in; ends with counts. Exits with
1 when anything failed.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import pathlib
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence

from support.gateway import Gateway
from support.stack import Stack

from fuzz import cases
from fuzz.queries import Query
from fuzz.run import SPARK_EVERY, Count, Verdict, batch
from fuzz.schema import Table
from fuzz.targets import Live, Offline, Target, duckdb_engine

_BATCH = 1250
"""Queries over the same tables."""
_WORKERS = 3


def main() -> int:
    """Runs what is asked for; returns the exit status."""
    parser = argparse.ArgumentParser(prog="fuzz", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--first", type=int, default=0, help="number of the first query")
    parser.add_argument("--batch", type=int, default=_BATCH, help="queries over the same tables")
    parser.add_argument("--spark-every", type=int, default=SPARK_EVERY)
    parser.add_argument("--offline", action="store_true", help="DuckDB alone, without a broker")
    parser.add_argument("--keep", type=pathlib.Path, default=cases.FOLDER)
    parser.add_argument("--examples", action="store_true", help="print one query of each error")
    asked = parser.parse_args()
    count, began = Count(), time.monotonic()
    with _set_up(offline=asked.offline) as set_up:
        end = asked.first + asked.count
        for first in range(asked.first // asked.batch * asked.batch, end, asked.batch):
            numbers = range(first, min(first + asked.batch, end))
            for number, query, verdict, tables in batch(
                asked.seed,
                numbers,
                functools.partial(set_up, first),
                count,
                skip=asked.first,
                spark_every=0 if asked.offline else asked.spark_every,
                workers=_WORKERS,
            ):
                count.failures.append(_report(asked.seed, number, query, verdict, tables))
                (asked.keep / f"{asked.seed}_{number}.json").write_text(
                    cases.text_of(verdict.failure, query, tables), encoding="utf-8"
                )
            _say(f"{count.queries:,} queries, {len(count.failures)} failed")
    if asked.examples:
        for (who, error), example in sorted(count.examples.items()):
            print(f"{who} {error}\n    {example}")
    print(f"\nseed {asked.seed}, {time.monotonic() - began:.0f} s\n{count.text()}", flush=True)
    return 1 if count.failures else 0


@contextlib.contextmanager
def _set_up(*, offline: bool) -> Iterator[Callable[[int, Sequence[Table]], Target]]:
    """Returns what stores tables somewhere for queries."""
    directory = pathlib.Path(tempfile.mkdtemp(prefix="seamline-fuzz-"))
    try:
        if offline:
            with contextlib.closing(duckdb_engine(directory)) as engine:
                yield lambda first, tables: Offline(tables, directory, engine)
            return
        _say("starting a broker and Spark …")
        with (
            contextlib.closing(Stack(directory / "stack")) as stack,
            contextlib.closing(Gateway(stack.config)) as gateway,
        ):
            yield lambda first, tables: Live(tables, stack, gateway, f"fuzz_{first}")
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _report(seed: int, number: int, query: Query, verdict: Verdict, tables: Sequence[Table]) -> str:
    parts = [f"--- seed {seed}, query {number}: {verdict.failure}\n{query.node.trino}"]
    parts += [f"{who}: {answer.text()}" for who, answer in verdict.answers.items()]
    text = "\n".join(parts)
    print(text, flush=True)
    return text


def _say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
