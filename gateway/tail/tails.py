"""The tails of statements: from the table's follower where it has one, else from the log.

A table is followed from the first statement that reads its current tail. Ranges that the
follower has not cached (because they begin before what it has, because waiting would be slower than
reading, or because it is full) are read from the log at the same offsets, with the same decoder. So
followers affect how fast a statement is answered, but never the answer.

A follower follows a table with its current schema and its current topic. Statements about the past,
or with a token, use its rows where they fit, and start no follower. A topic without a table is not
followed: all of it is its tail.
"""

from __future__ import annotations

import dataclasses
import datetime
import pathlib
import time
from collections.abc import Sequence

from seamline.connectors.kafka.continuity import check_read
from seamline.connectors.kafka.tail import Tail, read_tail
from seamline.connectors.protocols.deadlines import Deadline
from seamline.errors import TAIL_TOO_LARGE, SeamlineError
from seamline.gateway.catalogs.connections import Connections, Sources
from seamline.gateway.config.model import Config
from seamline.gateway.tail.assembly import assemble, first_bad, in_memory
from seamline.gateway.tail.compaction import NewestOfKeys
from seamline.gateway.tail.follower import Follower
from seamline.gateway.tail.followers import Budget, Followers
from seamline.gateway.tail.in_flight import InFlight
from seamline.gateway.tail.partitions import CachedSlices
from seamline.gateway.tail.requests import (
    CachedEnds,
    TailReader,
    ends_cached,
    followed_table,
    length_of,
)
from seamline.planners.plan.estimate import BYTES_PER_TAIL_RECORD
from seamline.planners.plan.physical import TailRead
from seamline.seam.history_checks import LogRead
from seamline.seam.log import LogBounds
from seamline.seam.offsets import OffsetRange, Offsets
from seamline.seam.records import DecoderSpec
from seamline.seam.seam import Seam
from seamline.seam.table import TableState

_SHORTCUT = 2
"""Reading is chosen over waiting when the follower must read this many times as much."""

_SHORTCUT_OFFSETS = 1000


class Tails:
    """Gets tails. Safe to share between threads.

    Args:
        connections: Clusters.
        followers: Follows tables; None follows none.
        size_bytes_max: Bytes of values that one statement may read from the log.
        offsets_max: Offsets that one statement may read from the log here.
        read_tail: Reads a tail from the log.
    """

    def __init__(
        self,
        connections: Sources,
        followers: Followers | None,
        *,
        size_bytes_max: int,
        offsets_max: int,
        read_tail: TailReader = read_tail,
    ) -> None:
        self._connections = connections
        self._read_tail = read_tail
        self.followers = followers
        self._size_bytes_max = size_bytes_max
        own = followers.budget.memory_bytes if followers is not None else 0
        self._in_flight = InFlight(max(size_bytes_max, own))
        self._offsets_max = offsets_max
        self._newest = NewestOfKeys(connections)

    def read(self, request: TailRead, deadline: Deadline) -> Tail:
        """See `TailRows.read`."""
        self._begin(request)
        tail = self.get(request, deadline)
        try:
            return in_memory(tail, request.decoder, request.columns)
        finally:
            tail.release()

    def get(self, request: TailRead, deadline: Deadline) -> Tail:
        """Returns the rows of the ranges, with the requested columns.

        Raises:
            SeamlineError: as `read_tail`; READ_CONFLICT or TOPIC_RECREATED when the log turned out
                to be another one; TAIL_TOO_LARGE when it does not fit here.
        """
        follower = self.follow(request)
        if follower is None or not request.ranges:
            tail = self._read_log(request, request.ranges, deadline)
            self._newest.check(request, tail.seen, {}, lambda *_: None, deadline)
            return tail
        with follower.keeping(request.seam.boundary):
            if request.present and request.asked_at is not None:
                ends = {r.partition: r.end_exclusive for r in request.seam.whole.hot_ranges}
                follower.asked(request.asked_at, Offsets(ends), request.seam.log.end_epochs)
            note = self._wait(follower, request, deadline)
            cached = follower.take(request.ranges)
        try:
            tail = self._put_together(request, follower, cached, deadline)
        except BaseException:
            cached.references.release()
            raise
        origin = dataclasses.replace(tail.origin, note=note if cached.missing else "")
        is_whole = not cached.missing and request.is_whole
        return dataclasses.replace(
            tail,
            origin=origin,
            log=follower.identity if is_whole else None,
            release=cached.references.release,
        )

    def follow(self, request: TailRead) -> Follower | None:
        """Returns the follower that can serve a read; starts one if there should be one.

        Returns None when the table should not be followed, or is followed as something else.
        """
        seam = request.seam
        if self.followers is None or not seam.table_uuid:
            return None
        table = followed_table(seam, request.decoder)
        if request.present and self.fits(seam):
            return self.followers.follow(
                table, seam.log.cluster, seam.boundary, seam.cold.epochs, request.known_at
            )
        follower = self.followers.find(seam.table_uuid)
        return follower if follower is not None and follower.table == table else None

    def follower_of(self, state: TableState) -> Follower | None:
        """Returns the follower that a table has now."""
        return self.followers.find(state.uuid) if self.followers is not None else None

    def _begin(self, request: TailRead) -> None:
        """Starts to follow a table that is not followed, for a caller that will ask again."""
        seam = request.seam
        if self.followers is None or self.followers.find(seam.table_uuid) or not self.fits(seam):
            return
        table = followed_table(seam, request.decoder)
        self.followers.follow(table, seam.log.cluster, seam.boundary, seam.cold.epochs, 0.0)

    def fits(self, seam: Seam) -> bool:
        """Whether the whole tail of a seam would fit into the budget, as far as is known."""
        if self.followers is None or not seam.table_uuid:
            return False
        follower = self.followers.find(seam.table_uuid)
        per_row = (
            follower.bytes_per_row if follower is not None else None
        ) or BYTES_PER_TAIL_RECORD
        budget = self.followers.budget
        size_bytes = seam.whole.hot_offsets * (per_row or BYTES_PER_TAIL_RECORD)
        return size_bytes <= budget.memory_bytes + budget.disk_bytes

    def cached(self, seam: Seam, decoder: DecoderSpec) -> Offsets:
        """Returns, per partition, the end up to which the tail of a seam is already cached."""
        follower = self.followers.find(seam.table_uuid) if self.followers is not None else None
        if follower is None or follower.over or follower.table != followed_table(seam, decoder):
            return Offsets()
        return Offsets(
            {
                partition: one.position
                for partition, one in follower.partitions.items()
                if one.cached_from <= seam.boundary.get(partition, 0)
            }
        )

    def cached_ends(
        self, state: TableState, decoder: DecoderSpec, age_s_max: float | None
    ) -> CachedEnds | None:
        """Returns ends up to which a table's topic can be read here at once.

        Args:
            state: The table as it is now.
            decoder: How its records are decoded.
            age_s_max: How old they may be; None for any age.

        Returns:
            None when what is cached is older, or does not belong to the table as it is now.
        """
        follower = self.follower_of(state)
        cached = follower.cached_ends(age_s_max) if follower is not None else None
        if follower is None or cached is None:
            return None
        source = follower.table.source
        if source != dataclasses.replace(
            source, decoder=decoder, schema_id=state.current_schema_id
        ):
            return None
        ends, epochs, complete_at = cached
        age = datetime.timedelta(seconds=time.monotonic() - complete_at)
        bounds = LogBounds(
            topic=decoder.topic,
            topic_id=source.topic_id,
            cluster_id="",
            start=Offsets(),  # cached rows need no log; for the rest, the log is checked
            end=ends,
            high_watermark=ends,
            isolation=source.isolation,
        )
        as_of = datetime.datetime.now(datetime.UTC) - age
        return CachedEnds(bounds, epochs, as_of, complete_at)

    def _wait(self, follower: Follower, request: TailRead, deadline: Deadline) -> str:
        """Waits for the follower if that is worthwhile; returns why it may not have everything."""
        missing = length_of(follower.missing(request.ranges))
        if follower.lag(request.ranges) > missing * _SHORTCUT + _SHORTCUT_OFFSETS:
            return "the follower is still far behind"
        ends = {r.partition: r.end_exclusive for r in request.ranges}
        if follower.wait(ends, deadline):
            return "the follower begins later"
        return f"the follower is {follower.state.value}"

    def _put_together(
        self, request: TailRead, follower: Follower, slices: CachedSlices, deadline: Deadline
    ) -> Tail:
        rest = None
        if slices.missing and first_bad(slices.slices, request.log_decoder) is None:
            rest = self._read_log(request, slices.missing, deadline)
        self._check(request, follower, slices, deadline)
        if request.decoder.primary_key:
            seen, cached = rest.seen if rest is not None else (), slices.replaced_below
            self._newest.check(request, seen, cached, follower.settle, deadline)
        spec = request.log_decoder
        return assemble(slices.slices, rest, spec, request.columns, request.predicate)

    def _check(
        self, request: TailRead, follower: Follower, cached: CachedSlices, deadline: Deadline
    ) -> None:
        """Checks that what is cached is what the log holds, and that no record of it is bad.

        Where no records are cached the log may hold some by now, so this is checked too.
        """
        ends = ends_cached(request.ranges, cached.missing)
        if ends:
            follower.confirm(ends, request.asked_at or 0.0, request.seam.log.end_epochs, deadline)
        bad = first_bad(cached.slices, request.log_decoder)
        if bad is not None:
            raise bad

    def _read_log(
        self, request: TailRead, ranges: Sequence[OffsetRange], deadline: Deadline
    ) -> Tail:
        """Reads ranges, then checks that the log still holds what was requested."""
        seam = request.seam
        if length_of(ranges) > self._offsets_max:
            raise SeamlineError(
                TAIL_TOO_LARGE,
                f"{length_of(ranges):,} offsets of {seam.display_name} would have to be read "
                f"here, more than {self._offsets_max:,}",
            )
        log = self._connections.log(seam.log.cluster)
        starts = {r.partition: r.start for r in ranges}
        with self._in_flight.reading() as add:
            tail = self._read_tail(
                log,
                ranges,
                seam.log.isolation,
                request.log_decoder,
                request.columns,
                deadline,
                size_bytes_max=self._size_bytes_max,
                add_bytes=add,
                epochs={
                    p: e for p, e in request.epochs.items() if starts.get(p) == seam.boundary[p]
                },
            )
        self._check_read(seam, ranges, deadline)
        return tail

    def check_left(self, request: TailRead, deadline: Deadline) -> None:
        """Checks that what Spark's workers have by now read from the log belongs to the seam.

        Raises:
            SeamlineError: as `get`.
        """
        self._check_read(request.seam, request.ranges, deadline)
        if request.decoder.primary_key:
            self._newest.check_left(request, deadline)

    def _check_read(self, seam: Seam, ranges: Sequence[OffsetRange], deadline: Deadline) -> None:
        check_read(self._connections.log(seam.log.cluster), LogRead.of(seam, ranges), deadline)


def followers(config: Config, connections: Connections) -> Followers | None:
    """Returns the followers of a gateway; None when it should not follow any tables."""
    tail = config.tail
    if not tail.follow:
        return None
    budget = Budget(tail.memory_bytes, tail.disk_bytes, float(tail.idle_seconds))
    return Followers(connections.log, budget, pathlib.Path(config.state_directory) / "tail")
