"""The functions under test as one value, so that a mutant is the value with a function replaced."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Protocol

from fakes.memory import Untimed

from seamline.connectors.protocols.cold_tables import TierTable
from seamline.connectors.protocols.deadlines import Deadline
from seamline.connectors.protocols.hot_logs import HotLog
from seamline.gateway.query.gather import ReadToken, no_tokens
from seamline.gateway.query.loaded import LastSeen
from seamline.gateway.query.tokens import NOTHING, After
from seamline.gateway.statements.freshness import LATEST, Freshness
from seamline.gateway.tail.followers import Followers
from seamline.gateway.tiering.step import resume, tier_once
from seamline.seam.boundary import Boundary
from seamline.seam.hands import handed_over, taken_over
from seamline.seam.seam import Seam
from seamline.seam.tiering import Step
from simulation.following import Follow, OneThread
from simulation.reading import Answer, Open, Sources, read
from simulation.world import HandOver, TakeOver


class Read(Protocol):
    """`reading.read`."""

    def __call__(
        self,
        sources: Sources,
        open_file: Open,
        statement: str,
        *,
        token: Sequence[Seam] = (),
        after: After = NOTHING,
        deadline: Deadline | None = None,
        last: LastSeen | None = None,
        now_ms: int = 0,
        read_token: ReadToken = no_tokens,
        followers: Followers | None = None,
        freshness: Freshness = LATEST,
    ) -> Answer:
        """See `reading.read`."""


class Tier(Protocol):
    """`tier_once`."""

    def __call__(
        self, table: TierTable, log: HotLog, deadline: Deadline, *, records_max: int
    ) -> Step:
        """See `tier_once`."""


class Resume(Protocol):
    """`step.resume`."""

    def __call__(
        self,
        table: TierTable,
        log: HotLog,
        deadline: Deadline,
        *,
        now_ms: int,
        by: str,
        accept_loss: bool,
    ) -> Boundary:
        """See `step.resume`."""


@dataclasses.dataclass(frozen=True)
class Product:
    """What is tested.

    Attributes:
        read: Runs a statement.
        follow: Makes the followers of a gateway.
        tier: Runs one step of tiering.
        take_over: Where the pipeline continues with a table of another writer.
        hand_over: Where another writer continues with a table of ours.
        resume: Goes on after a loss.
    """

    read: Read = read
    follow: Follow = OneThread
    tier: Tier = tier_once
    take_over: TakeOver = taken_over
    hand_over: HandOver = handed_over
    resume: Resume = resume


REAL = Product()


def tier_all(product: Product, table: TierTable, log: HotLog, steps_max: int = 50) -> Step:
    """Tiers until nothing is left.

    Raises:
        SeamlineError: as `tier_once`.
    """
    for _ in range(steps_max):
        step = product.tier(table, log, Untimed(), records_max=2)
        if step.lag == 0:
            return step
    raise AssertionError(f"the lag is still {step.lag} after {steps_max} steps")
