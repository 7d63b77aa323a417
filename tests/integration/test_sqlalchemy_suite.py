"""Goal: the dialect passes the tests that SQLAlchemy has for dialects of others.

Method: the suite of `sqlalchemy.testing`, in a pytest of its own, over a real gateway. What is left
out is listed in `dialect.requirements`, with a reason for each requirement, and in `dialect.suite`;
each test that was skipped must give one of those. The whole suite takes many minutes and is for
`make soak`, a part of every kind of test is a proof.
"""

from __future__ import annotations

import collections
import dataclasses
import os
import pathlib
import subprocess
import sys
from urllib.parse import urlsplit
from xml.etree import ElementTree

import pytest
from dialect import requirements
from support.gateway import Gateway

pytestmark = pytest.mark.integration

FOLDER = pathlib.Path(requirements.__file__).parent
PART = (
    *("BooleanTest", "CTETest", "CastTypeDecoratorTest", "DateTest", "JoinTest", "RowFetchTest"),
    *("ReturningGuardsTest", "SimpleUpdateDeleteTest"),
)
"""Some tests of every kind: queries, types, rows, literals, parameters."""

OF_THE_SUITE = {
    "seamline doesn't support 'DELETE ... RETURNING'",
    "seamline doesn't support 'INSERT ... RETURNING'",
    "seamline doesn't support 'RETURNING of multiple rows with INSERT executemany'",
    "seamline doesn't support 'UPDATE ... RETURNING'",
    "custom function",
    "empty inserts not supported",
    "no non-default isolation level available",
}
"""What the suite itself says, of what it has asked the dialect."""


@dataclasses.dataclass(frozen=True)
class Figures:
    """The outcome of the tests.

    Attributes:
        passed: How many passed.
        left_out: How many were left out, by their reasons.
        wrong: Those that failed, with what they say.
    """

    passed: int
    left_out: collections.Counter[str]
    wrong: list[str]

    def __str__(self) -> str:
        lines = [f"passed {self.passed}, left out {self.left_out.total()}"]
        lines += [f"  {count:>5}  {reason}" for reason, count in self.left_out.most_common()]
        return "\n".join(lines)


def figures(report: pathlib.Path) -> Figures:
    """The figures of a report of pytest's."""
    passed, wrong, left_out = 0, [], collections.Counter[str]()
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        skipped = case.find("skipped")
        failed = [found for kind in ("failure", "error") for found in case.iter(kind)]
        if failed:
            wrong.append(f"{case.get('classname')}.{case.get('name')}: {failed[0].get('message')}")
        elif skipped is not None:
            left_out[(skipped.get("message") or "").rpartition(" : ")[2]] += 1
        else:
            passed += 1
    return Figures(passed, left_out, wrong)


def run(gateway: Gateway, folder: pathlib.Path, wanted: str) -> Figures:
    """Runs the tests whose names match."""
    report = folder / "report.xml"
    address = urlsplit(gateway.url)
    url = f"seamline://{address.hostname}:{address.port}/lake/default"
    command = [
        *(sys.executable, "-m", "pytest", "-q", "--tb=short", "-p", "no:cacheprovider"),
        *("-p", "sqlalchemy.testing.plugin.pytestplugin", "-c", str(FOLDER / "pytest.ini")),
        *("--rootdir", str(FOLDER), "--dburi", url, f"--junitxml={report}", "-k", wanted),
        str(FOLDER / "suite.py"),
    ]
    environment = {**os.environ, "PYTHONPATH": str(FOLDER), "PYTEST_ADDOPTS": ""}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert report.exists(), done.stdout + done.stderr
    found = figures(report)
    sys.stdout.write(f"{found}\n")
    assert not found.wrong, done.stdout
    return found


@pytest.fixture(scope="module")
def schemas(gateway: Gateway) -> None:
    """The two schemas that the suite needs besides the default one."""
    for name in ("test_schema", "test_schema_2"):
        gateway.rows(f"CREATE SCHEMA IF NOT EXISTS lake.{name}")


def without_reason(found: Figures) -> set[str]:
    """Reasons that nobody here has given."""
    known = {f"{name}: {reason}" for name, reason in requirements.REASONS.items()}
    return {
        reason
        for reason in set(found.left_out) - known - OF_THE_SUITE
        if not reason.startswith("by hand: ")
    }


@pytest.mark.soak
@pytest.mark.usefixtures("schemas")
def test_the_dialect_passes_some_of_every_kind(gateway: Gateway, tmp_path: pathlib.Path) -> None:
    found = run(gateway, tmp_path, " or ".join(PART))
    assert found.passed >= 25
    assert not without_reason(found)


@pytest.mark.soak
@pytest.mark.timeout(7200)
@pytest.mark.usefixtures("schemas")
def test_the_dialect_passes_sqlalchemys_suite(gateway: Gateway, tmp_path: pathlib.Path) -> None:
    found = run(gateway, tmp_path, "")
    assert found.passed >= 550
    assert not without_reason(found)


def test_what_the_suite_may_not_expect_has_a_reason() -> None:
    assert not requirements.without_reason()
    assert not requirements.THERE & set(requirements.REASONS)
