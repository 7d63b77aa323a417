"""Auction bids in the shape of the NEXMark benchmark, and the exact answers at any seam.

Bid number i depends only on i. The producer chooses partitions by the hash of the auction,
as Kafka's clients do, and remembers which bids each partition got in which order. So the exact
answer of every demo query is known for every seam without reading anything.
"""

from __future__ import annotations

import array
import collections
import itertools
import json
from collections.abc import Iterator, Mapping

from confluent_kafka import KafkaError, Message, Producer

from seamline.errors import KAFKA_UNAVAILABLE, SeamlineError
from seamline.planners.rules.prune_tail_by_key import murmur2

PARTITIONS = 4
AUCTIONS = 1000
CHANNELS = ("Apple", "Google", "Facebook", "Baidu", "channel-7")
_DEVICES = ("phone", "tablet", "desktop")
CATEGORIES = ("art", "books", "cars", "music", "toys")
_START_MS = 1_760_000_000_000

BIDS_COLUMNS = (
    "auction bigint, bidder bigint, price bigint, channel varchar, url varchar,"
    " date_time timestamp with time zone, extra row(device varchar, referrer varchar)"
)
AUCTIONS_COLUMNS = "id bigint, item varchar, category varchar, reserve decimal(10, 2)"


def auction_of(number: int) -> int:
    """Returns the auction of a bid; a few auctions are hot, as in the benchmark."""
    spread = number * 2_654_435_761 % 2**32
    return 1000 + (spread % 10 if spread % 4 == 0 else spread // 16 % AUCTIONS)


def price_of(number: int) -> int:
    """Returns a bid's price in cents."""
    return 100 + number * 7919 % 99_900


def channel_of(number: int) -> str:
    """Returns a bid's channel."""
    return CHANNELS[number * 31 // 7 % len(CHANNELS)]


def category_of(auction: int) -> str:
    """Returns the category of an auction."""
    return CATEGORIES[auction % len(CATEGORIES)]


def bid(number: int) -> bytes:
    """Returns a bid as JSON, formatted by hand for speed; some lack extra, some a referrer."""
    extra = "null"
    if number % 10:
        device = _DEVICES[number % 3]
        referrer = "null" if number % 4 == 0 else '"news"'
        extra = f'{{"device":"{device}","referrer":{referrer}}}'
    auction = auction_of(number)
    return (
        f'{{"auction":{auction},"bidder":{2000 + number % 5003},"price":{price_of(number)},'
        f'"channel":"{channel_of(number)}","url":"https://auction.example/item/{auction}",'
        f'"date_time":{_START_MS + number * 10},"extra":{extra}}}'
    ).encode()


def auctions() -> Iterator[bytes]:
    """Yields every auction as JSON."""
    for auction in range(1000, 1000 + AUCTIONS):
        yield json.dumps(
            {
                "id": auction,
                "item": f"item {auction}",
                "category": category_of(auction),
                "reserve": f"{auction % 97}.{auction % 100:02d}",
            }
        ).encode()


class BidProducer:
    """Produces bids 0, 1, 2, … to a topic and remembers where each went.

    Args:
        bootstrap_servers: The cluster.
        topic: The topic, which has `PARTITIONS` partitions.
    """

    def __init__(self, bootstrap_servers: str, topic: str) -> None:
        self.topic = topic
        self.sent = 0
        self.by_partition = [array.array("q") for _ in range(PARTITIONS)]
        self._failures: list[KafkaError] = []
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap_servers,
                "enable.idempotence": True,
                "linger.ms": 20,
                "compression.type": "lz4",
                "queue.buffering.max.messages": 500_000,
                "log_level": 0,
            }
        )

    def produce(self, count: int) -> None:
        """Sends the next bids; they are acknowledged after `flush`."""
        for _ in range(count):
            number = self.sent
            key = str(auction_of(number)).encode()
            partition = murmur2(key) % PARTITIONS
            while True:
                try:
                    self._producer.produce(
                        self.topic, bid(number), key, partition, on_delivery=self._delivered
                    )
                    break
                except BufferError:
                    self._producer.poll(0.05)
            self.by_partition[partition].append(number)
            self.sent += 1
            if number % 1000 == 0:
                self._producer.poll(0)

    def flush(self) -> None:
        """Waits until everything sent is acknowledged.

        Raises:
            SeamlineError: KAFKA_UNAVAILABLE.
        """
        left = self._producer.flush(60)
        if left or self._failures:
            cause = self._failures[0] if self._failures else f"{left} bids were not acknowledged"
            raise SeamlineError(KAFKA_UNAVAILABLE, f"topic {self.topic}: {cause}")

    def _delivered(self, error: KafkaError | None, _: Message) -> None:
        if error is not None:
            self._failures.append(error)

    def numbers(self, end: Mapping[str, int]) -> Iterator[int]:
        """Returns the bids below a receipt's exclusive ends, which are given by partition."""
        return itertools.chain.from_iterable(
            self.by_partition[int(partition)][:offset] for partition, offset in end.items()
        )


# --- Expected answers of the demo's queries -------------------------------------------------------


def expected_totals(numbers: Iterator[int]) -> list[tuple[int, int]]:
    """Returns count(*), sum(price)."""
    count = total = 0
    for number in numbers:
        count += 1
        total += price_of(number)
    return [(count, total)]


def expected_of_auction(numbers: Iterator[int], auction: int) -> list[tuple[int, int]]:
    """Returns count(*), max(price) of one auction."""
    prices = [price_of(number) for number in numbers if auction_of(number) == auction]
    return [(len(prices), max(prices))]


def expected_by_channel(numbers: Iterator[int]) -> list[tuple[str, int, int]]:
    """Returns count(*), sum(price) per channel."""
    counts: dict[str, list[int]] = {}
    for number in numbers:
        entry = counts.setdefault(channel_of(number), [0, 0])
        entry[0] += 1
        entry[1] += price_of(number)
    return sorted((channel, *entry) for channel, entry in counts.items())  # type: ignore[misc]


def expected_by_category(numbers: Iterator[int]) -> list[tuple[str, int]]:
    """Returns count(*) per category of the auction."""
    counts = collections.Counter(category_of(auction_of(number)) for number in numbers)
    return sorted(counts.items())


def expected_top(numbers: Iterator[int], count: int) -> list[tuple[int, int]]:
    """Returns the auctions with the most bids and their counts; ties go to the smaller id."""
    counts = collections.Counter(auction_of(number) for number in numbers)
    return sorted(counts.items(), key=lambda entry: (-entry[1], entry[0]))[:count]
