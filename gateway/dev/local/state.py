"""What is remembered of a broker between commands: its process and its ports.

It is one small JSON file, which is replaced as a whole, so that it is never half written.
"""

from __future__ import annotations

import dataclasses
import json
import pathlib
from typing import Any

from seamline.errors import LOCAL_STACK_FAILED, SeamlineError
from seamline.gateway.dev.local.ports import Ports
from seamline.gateway.process import ProcessIdentity

_VERSION = 1


@dataclasses.dataclass(frozen=True, slots=True)
class State:
    """A broker as it was last started.

    Attributes:
        ports: The ports on which it listens or listened.
        process: The process; None once it was stopped. A process that no longer runs was killed.
    """

    ports: Ports
    process: ProcessIdentity | None


def read(path: pathlib.Path) -> State | None:
    """Reads the file; returns None when there is none.

    Raises:
        SeamlineError: LOCAL_STACK_FAILED when it cannot be parsed.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        raise _not_understood(path) from error
    try:
        return _parse(json.loads(text))
    except (ValueError, LookupError, TypeError) as error:
        raise _not_understood(path) from error


def _not_understood(path: pathlib.Path) -> SeamlineError:
    return SeamlineError(
        LOCAL_STACK_FAILED,
        f"{path} cannot be parsed",
        hint="Make sure no broker of this directory runs, then remove the file; data is kept.",
    )


def write(path: pathlib.Path, state: State) -> None:
    """Replaces the file."""
    body: dict[str, Any] = {
        "version": _VERSION,
        "ports": dataclasses.asdict(state.ports),
        "process": dataclasses.asdict(state.process) if state.process else None,
    }
    new = path.with_suffix(".new")
    new.write_text(json.dumps(body, indent=2) + "\n", encoding="utf-8")
    new.replace(path)


def _parse(body: Any) -> State:
    if body["version"] != _VERSION:
        raise ValueError(body["version"])
    ports = Ports(int(body["ports"]["kafka"]), int(body["ports"]["controller"]))
    if body["process"] is None:
        return State(ports, None)
    return State(ports, ProcessIdentity(int(body["process"]["pid"]), body["process"]["started"]))
