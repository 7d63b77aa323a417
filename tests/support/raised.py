"""What other people's code raises, and a plan of faults that raises it where a call is made."""

from __future__ import annotations

import struct
import threading
from collections.abc import Callable

import pyarrow as pa
from confluent_kafka import KafkaError, KafkaException
from fakes.faulty import Fault


class PanicError(BaseException):
    """What extensions written in Rust raise: not an `Exception`."""


FOREIGN: tuple[Callable[[], BaseException], ...] = (
    lambda: RuntimeError("it broke\nin two lines"),
    lambda: MemoryError(),
    lambda: OSError(5, "Input/output error"),
    lambda: KeyError("missing"),
    lambda: AssertionError(),
    lambda: RecursionError("too deep"),
    lambda: struct.error("unpack requires a buffer of 4 bytes"),
    lambda: pa.ArrowInvalid("not a Parquet file"),
    lambda: KafkaException(KafkaError(KafkaError._FAIL)),
    lambda: SystemExit(1),
    lambda: PanicError("index out of bounds"),
)
"""Makes one of each kind; a traceback belongs to one raising."""


def kind(make: Callable[[], BaseException]) -> str:
    """Its class, as the name of a test."""
    return type(make()).__name__


class Raises:
    """A `FaultPlan` that raises at calls of one kind, until it is mended.

    Args:
        call: The kind.
        make: Makes what is raised.
    """

    def __init__(self, call: str, make: Callable[[], BaseException]) -> None:
        self._call = call
        self._make = make
        self._mended = threading.Event()
        self.raised = 0

    def mend(self) -> None:
        """Raises no more."""
        self._mended.set()

    def at(self, call: str) -> Fault:
        """See `FaultPlan.at`."""
        if call == self._call and not self._mended.is_set():
            self.raised += 1
            raise self._make()
        return Fault.NONE

    def later(self, effect: Callable[[], object]) -> None:
        """See `FaultPlan.later`."""
        raise NotImplementedError
