"""Queries asked of everything that can answer them, judged, and counted."""

from __future__ import annotations

import collections
import dataclasses
import re
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

from fuzz.answers import UNNAMED, Answer, disagreement
from fuzz.expressions import simplest
from fuzz.nodes import smaller
from fuzz.oracle import Oracle
from fuzz.queries import Query, statement
from fuzz.schema import Table, tables
from fuzz.targets import Target

SPARK_EVERY = 48
"""Spark plans for a third of a second: it gets one query in this many, or two without an oracle."""
_SHAPE = re.compile(r"[\"'].*?[\"']|\d+")
_TRIES_MAX = 150
_SECONDS_MAX = 30.0


@dataclasses.dataclass(frozen=True, slots=True)
class Verdict:
    """What was answered to one query.

    Attributes:
        answers: Answers by who gave them: `duckdb`, `spark` and `plain`.
        failure: What is wrong with them, in a few words; empty when nothing is.
    """

    answers: dict[str, Answer]
    failure: str


@dataclasses.dataclass(slots=True)
class Count:
    """What was found so far."""

    queries: int = 0
    plain: int = 0
    spark: int = 0
    skipped: int = 0
    outcomes: collections.Counter[tuple[str, str]] = dataclasses.field(
        default_factory=collections.Counter
    )
    examples: dict[tuple[str, str], str] = dataclasses.field(default_factory=dict)
    failures: list[str] = dataclasses.field(default_factory=list)

    def add(self, query: Query, verdict: Verdict) -> None:
        """Counts one query."""
        for who, answer in verdict.answers.items():
            if answer.rows is None:
                shape = who, f"{answer.error}: {_SHAPE.sub('…', answer.message)[:60]}"
                self.examples.setdefault(shape, f"{answer.message[:300]}\n{query.node.trino}")
        self.queries += 1
        self.plain += "plain" in verdict.answers
        self.spark += "spark" in verdict.answers
        outcomes = {who: answer.outcome for who, answer in verdict.answers.items()}
        self.skipped += len({outcome == "rows" for outcome in outcomes.values()}) > 1
        self.outcomes.update((who, o) for who, o in outcomes.items() if who != "plain")

    def text(self) -> str:
        """The last lines of a run."""
        lines = [
            f"queries: {self.queries:,} on DuckDB over cold, hot and split rows; of these"
            f" {self.plain:,} also by plain DuckDB, {self.spark:,} also on Spark"
        ]
        for engine in ("duckdb", "spark"):
            found = sorted(
                ((n, o) for (who, o), n in self.outcomes.items() if who == engine), reverse=True
            )
            if found:
                lines.append(f"{engine}: " + ", ".join(f"{o} {n:,}" for n, o in found))
        internal = sum(n for (_, outcome), n in self.outcomes.items() if outcome in UNNAMED)
        lines.append(f"an error of a value that only one computes: {self.skipped:,}")
        lines.append(f"INTERNAL_ERROR and SPARK_FAILED: {internal:,}")
        lines.append(f"disagreements: {len(self.failures):,}")
        return "\n".join(lines)


def judge(query: Query, target: Target, oracle: Oracle, *, spark: bool) -> Verdict:
    """Asks everybody."""
    answers = {"duckdb": target.answer(query, "duckdb")}
    plain = oracle.answer(query)
    if plain is not None:
        answers["plain"] = plain
    if spark:
        answers["spark"] = target.answer(query, "spark")
    for who, answer in answers.items():
        if answer.error in UNNAMED or answer.error.startswith("oracle: "):
            return Verdict(answers, f"{who}: {answer.error}")
    for who in ("plain", "spark"):
        if who in answers and (found := disagreement(answers["duckdb"], answers[who])):
            return Verdict(answers, f"{who}: {found}")
    return Verdict(answers, "")


def shrink(
    query: Query, verdict: Verdict, again: Callable[[Query], Verdict]
) -> tuple[Query, Verdict]:
    """The smallest query found that fails in the same way, and how."""
    tries, until = 0, time.monotonic() + _SECONDS_MAX
    found = True
    while found:
        found = False
        for node in smaller(query.node, simplest):
            tries += 1
            if tries > _TRIES_MAX or time.monotonic() > until:
                return query, verdict
            less = dataclasses.replace(query, node=node)
            now = again(less)
            if now.failure == verdict.failure:
                query, verdict, found = less, now, True
                break
    return query, verdict


def asks_spark(number: int, query: Query, every: int) -> bool:
    """Whether a query is one of those that Spark answers, too; rather if nobody else does."""
    share = every if query.node.duckdb is not None else max(1, every // 2)
    return every > 0 and number % share == 0


def batch(
    seed: int,
    numbers: Sequence[int],
    set_up: Callable[[Sequence[Table]], Target],
    count: Count,
    *,
    skip: int = 0,
    spark_every: int,
    workers: int = 1,
) -> Iterator[tuple[int, Query, Verdict, Sequence[Table]]]:
    """Asks queries by number over one set of tables; returns those that failed, made small.

    Args:
        seed: The run's seed.
        numbers: The queries; the first of them decides the tables.
        set_up: Puts tables where they are asked.
        count: What is found is added to it.
        skip: Queries before this one are not asked.
        spark_every: One in this many also runs on Spark; none with 0.
        workers: How many are asked at once.
    """
    found = tables(f"{seed}/{numbers[0]}")
    target, oracle = set_up(found), Oracle(found)

    def one(number: int) -> tuple[int, Query, Verdict]:
        query = statement(f"{seed}/{number}", found)
        on_spark = asks_spark(number, query, spark_every)
        return number, query, judge(query, target, oracle, spark=on_spark)

    with ThreadPoolExecutor(workers) as pool:
        for number, query, verdict in pool.map(one, (n for n in numbers if n >= skip)):
            count.add(query, verdict)
            if verdict.failure:
                on_spark = "spark" in verdict.answers

                def again(less: Query, on_spark: bool = on_spark) -> Verdict:
                    return judge(less, target, oracle, spark=on_spark)

                yield number, *shrink(query, verdict, again), found
