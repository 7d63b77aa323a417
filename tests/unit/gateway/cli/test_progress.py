"""Goal: a person sees what a command does and that it goes on; a log is not flooded.

Method: a clock that the test moves; a stream that keeps what it gets, and a pseudo-terminal.
"""

from __future__ import annotations

import io
import sys

import pexpect

from seamline.gateway.cli.progress import ProgressLine


class Clock:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_in_a_pipe_a_step_is_a_line_that_is_repeated_now_and_then() -> None:
    clock, stream = Clock(), io.StringIO()
    line = ProgressLine(stream, "starting", clock=clock)
    line.report("kafka: 1 of 45 MB")
    for _ in range(12):
        clock.now += 1
        line.tick()
    line.report("kafka: 1 of 45 MB")
    line.print("done")
    line.report("")
    clock.now += 60
    line.tick()
    line.clear()
    assert stream.getvalue().splitlines() == [
        "kafka: 1 of 45 MB",
        "kafka: 1 of 45 MB, 5 s",
        "kafka: 1 of 45 MB, 10 s",
        "done",
    ]


def test_a_first_step_that_is_short_is_no_line_of_a_log() -> None:
    clock, stream = Clock(), io.StringIO()
    line = ProgressLine(stream, "starting the gateway", clock=clock)
    line.clear()
    assert not stream.getvalue()
    line = ProgressLine(stream, doing=lambda: ("writing", 7.0), clock=clock)
    clock.now += 5
    line.tick()
    assert stream.getvalue() == "writing, 7 s\n"


PROGRAM = """
import sys
from seamline.gateway.cli.progress import ProgressLine

moments = iter([100.0, 100.0, 225.0, 225.0, 225.0])
line = ProgressLine(sys.stderr, "a step that takes its time", clock=lambda: next(moments, 225.0))
line.tick()
line.print("a line that stays")
line.tick()
line.clear()
"""


def test_on_a_terminal_one_line_moves_and_its_time_stays_whole() -> None:
    arguments = ["-c", PROGRAM]
    child = pexpect.spawn(sys.executable, arguments, dimensions=(24, 30), encoding="utf-8")
    assert child.read().split("\r\x1b[2K") == [
        "",
        "a step that takes its time",
        "a step that takes its…, 125 s",
        "a line that stays\r\n",
        "a step that takes its…, 125 s",
        "",
    ]
