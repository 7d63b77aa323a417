"""Runs checks at the same time, each with its own time limit and independent of the others.

A check that does not end in time, or that raises an exception, is itself a finding. Tables are
checked after the rest; those whose catalog or cluster is down are left out.
"""

from __future__ import annotations

import dataclasses
import queue
import time
from collections.abc import Callable, Iterable, Iterator, Sequence

from seamline.connectors import supervision
from seamline.errors import MISSING_EXTRA
from seamline.gateway.doctor import installation
from seamline.gateway.doctor.findings import Finding, Level, of_error, wrong

Look = Callable[[], Iterable[Finding]]


@dataclasses.dataclass(frozen=True, slots=True)
class Check:
    """A check to be run.

    Attributes:
        about: The heading of its findings; several checks may share one heading.
        look: Runs the check, and returns its findings.
        seconds: How long it may take; None for the common limit.
    """

    about: str
    look: Look
    seconds: float | None = None


def examine(checks: Sequence[Check], seconds: float) -> Iterator[tuple[str, Finding]]:
    """Runs all checks and yields their findings, in the order of the checks, as they are known.

    Args:
        checks: The checks.
        seconds: The time limit of checks that have none of their own.
    """
    began = time.monotonic()
    running = [_begun(check) for check in checks]
    for check, coming in zip(checks, running, strict=True):
        until = began + (check.seconds or seconds)
        while True:
            try:
                finding = coming.get(timeout=max(0.01, until - time.monotonic()))
            except queue.Empty:
                allowed = check.seconds or seconds
                yield check.about, _late(allowed)
                break
            if finding is None:
                break
            yield check.about, finding


def _late(seconds: float) -> Finding:
    return wrong(
        f"no answer within {seconds:g} s",
        "Look for something that drops packets, such as a firewall. A machine that is only "
        "busy needs more time: --timeout.",
    )


def _begun(check: Check) -> queue.SimpleQueue[Finding | None]:
    findings: queue.SimpleQueue[Finding | None] = queue.SimpleQueue()

    def work() -> None:
        try:
            for finding in check.look():
                findings.put(finding)
        except Exception as error:  # noqa: BLE001 - one check keeps no other from being made
            findings.put(_raised(error))
        finally:
            findings.put(None)

    if not supervision.start("doctor", work):
        findings.put(
            wrong("no thread could be started for the check", "Raise the limit on threads.")
        )
        findings.put(None)
    return findings


def _raised(error: Exception) -> Finding:
    if isinstance(error, ModuleNotFoundError):
        package = (error.name or "").split(".")[0]
        extra = installation.extra_of(package)
        remedy = f"pip install 'seamline[{extra}]'" if extra else f"pip install {package}"
        return Finding(Level.WRONG, f"{package} is not installed", remedy, MISSING_EXTRA.name)
    return of_error(supervision.named(error))
