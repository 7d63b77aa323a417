"""Fixtures of all suites. The embedded stack is started once, when the first test asks for it."""

from __future__ import annotations

import collections
import gc
import os
import pathlib
import shutil
import signal
import uuid
from collections.abc import Iterable, Iterator
from typing import Any

import hypothesis
import pytest
from support import offline, slt
from support.gateway import Gateway
from support.java import SHORT_LIVED_JAVA
from support.stack import ENGINES, Stack
from xdist.scheduler import LoadFileScheduling  # type: ignore[import-untyped]

os.environ.update(SHORT_LIVED_JAVA)
# how long an example takes says what else the machine does
hypothesis.settings.register_profile(
    "new", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
# the same examples each time: whoever changes nothing breaks nothing
hypothesis.settings.register_profile(
    "same", hypothesis.settings.get_profile("new"), derandomize=True
)
hypothesis.settings.load_profile("same")
# a shell that starts the tests in its background has programs ignore Ctrl-C; tests press it
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rewrite", action="store_true", help="fill expected halves of text tests")
    parser.addoption("--seed", type=int, help="run this one history of the simulation")
    parser.addoption("--histories", type=int, default=100_000, help="histories of the long proofs")


ONE_PASS = frozenset(
    f"test_{name}"
    for name in (
        *("changes", "clients", "console", "creating", "errors", "exactness"),
        *("merging", "names", "slt", "tiering", "tokens"),
    )
)
"""Modules whose tests on real parts belong to `make test`; those of all others are long proofs."""


LONG = frozenset(
    {"test_newest", "test_readers", "test_explorer", "test_simulator", "test_token_logins"}
)
"""Modules of minutes each, which begin first with those of the one pass: the last one to end would
end alone."""


def pytest_ignore_collect(collection_path: pathlib.Path, config: pytest.Config) -> bool | None:
    """Has `make test` import no module of which it runs nothing."""
    is_first = "not prove" in config.option.markexpr
    return (is_first and collection_path.is_file() and _is_of_proofs(collection_path)) or None


def _is_of_proofs(module: pathlib.Path) -> bool:
    """Whether `make test` runs nothing of a module: it needs real parts, in more than one pass."""
    return module.parent.name in ("integration", "readers") and module.stem not in ONE_PASS


def _has(item: pytest.Item, *marks: str) -> bool:
    return any(item.get_closest_marker(mark) for mark in marks)


def _sample(
    items: Iterable[pytest.Item], level: str, mark: pytest.MarkDecorator, otherwise: int = 1
) -> None:
    """Marks all but one of so many variants of a test, as its own mark `one_in` says.

    Args:
        items: The tests.
        level: Which number of the mark counts.
        mark: What the other variants get.
        otherwise: Of how many one stays where a test says nothing.
    """
    met = collections.Counter[str]()
    for item in items:
        sample = item.get_closest_marker("one_in")
        every = sample.kwargs.get(level, otherwise) if sample is not None else otherwise
        function = item.nodeid.partition("[")[0]
        if met[function] % every:
            item.add_marker(mark)
        met[function] += 1


def pytest_collection_finish() -> None:
    """Keeps the collector of garbage from looking through all tests again and again."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sorts tests on real parts into those of `make test` and the long proofs; long ones first."""
    prove, soak = pytest.mark.prove, pytest.mark.soak
    for item in items:
        is_of_parts = _has(item, "integration", "spark") and item.path.stem not in ONE_PASS
        if is_of_parts or _is_of_proofs(item.path):
            item.add_marker(prove)
    _sample([item for item in items if not _has(item, "prove", "soak")], "test", prove)
    proofs = [item for item in items if _has(item, "prove") and not _has(item, "soak")]
    _sample(proofs, "prove", soak, otherwise=len(items))
    items.sort(key=lambda item: item.path.stem not in LONG | ONE_PASS)


class OneStack(LoadFileScheduling):  # type: ignore[misc]
    """Shares modules out between workers; one worker has all that need the stack."""

    def _split_scope(self, nodeid: str) -> str:
        file = str(super()._split_scope(nodeid))
        return "stack" if pathlib.PurePath(file).stem in ONE_PASS else file


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadFileScheduling | None:
    """`--dist loadgroup` is `OneStack`; other ways to share out are left as they are."""
    return OneStack(config, log) if config.getoption("dist") == "loadgroup" else None


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Says what failed when it fails: a run that is ended early never comes to its summary."""
    if report.failed and "PYTEST_XDIST_WORKER" not in os.environ:
        print(
            f"\n{report.nodeid} failed ({report.when}):\n{report.longreprtext[-3000:]}", flush=True
        )


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Says how much of tests/slt was asked, and by which route."""
    asked = collections.Counter[str]()
    for report in terminalreporter.getreports("passed"):
        for name, count in report.user_properties if report.when == "call" else ():
            if name.startswith(slt.ASKED):
                asked[name.removeprefix(slt.ASKED)] += count
    if asked:
        routes = ", ".join(f"{count:,} by {route}" for route, count in asked.items())
        terminalreporter.write_line(f"tests/slt: {asked.total():,} queries answered ({routes})")


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A real broker, catalog and warehouse in one folder."""
    directory = tmp_path_factory.mktemp("stack")
    running = Stack(directory)
    try:
        yield running
    finally:
        running.close()
        shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture(params=ENGINES)
def tier_engine(request: pytest.FixtureRequest, stack: Stack) -> Iterator[None]:
    """What writes the batches of a test's tables."""
    stack.tier_engine = request.param
    yield
    stack.tier_engine = ENGINES[0]


@pytest.fixture(scope="session")
def gateway(stack: Stack) -> Iterator[Gateway]:
    """A gateway over the stack, in this process, with both engines."""
    running = Gateway(stack.config)
    try:
        yield running
    finally:
        running.close()


@pytest.fixture(scope="session")
def offline_gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """A gateway with an empty catalog and a cluster that never answers: enough for most of it."""
    running = Gateway(offline.config(tmp_path_factory.mktemp("offline")))
    try:
        yield running
    finally:
        running.close()


@pytest.fixture
def rewrite(request: pytest.FixtureRequest) -> bool:
    """Whether golden files are to be filled."""
    return bool(request.config.getoption("--rewrite"))


@pytest.fixture
def name() -> str:
    """A name no other test uses, for topics and tables."""
    return f"t_{uuid.uuid4().hex[:12]}"


@pytest.fixture
def scratch(tmp_path: pathlib.Path) -> pathlib.Path:
    """An empty folder."""
    return tmp_path
