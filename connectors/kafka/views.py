"""What brokers say a topic is: its id and its partitions, on which two of them must agree.

Offsets come from the leaders of a topic, its id from any broker. One that has not yet heard that a
topic was created again gives the old id with the offsets of the new log, which would then be taken
for the old one. So where a cluster has several brokers, two are asked until they agree.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from confluent_kafka import KafkaError, KafkaException, Uuid
from confluent_kafka.admin import TopicDescription

from seamline.connectors.kafka.cluster import named_error
from seamline.errors import NOT_SUPPORTED, SeamlineError

NO_ID = str(Uuid(0, 0))
"""What a client says where the broker gives no ids: the same for every topic there ever was."""


def partitions_of(topic: TopicDescription) -> tuple[int, ...]:
    """The partitions of a topic, sorted."""
    return tuple(sorted(partition.id for partition in topic.partitions))


def agreed(views: Sequence[Mapping[str, TopicDescription]]) -> Mapping[str, TopicDescription]:
    """The topics, as all views have them.

    Args:
        views: What each broker says of the same topics.

    Raises:
        SeamlineError: KAFKA_UNAVAILABLE, which passes when it is asked again, where they differ;
            NOT_SUPPORTED for a topic without an id.
    """
    for name in views[0]:
        said = {(str(view[name].topic_id), partitions_of(view[name])) for view in views}
        if any(topic_id == NO_ID for topic_id, _ in said):
            raise SeamlineError(
                NOT_SUPPORTED,
                f"the brokers give topic {name} no id: nobody could tell if it were created again",
                hint="Topics have ids since Kafka 2.8, and with inter.broker.protocol.version 2.8.",
            )
        if len(said) > 1:
            behind = KafkaException(KafkaError(KafkaError.LEADER_NOT_AVAILABLE))
            where = f"brokers do not agree yet which topic {name} is"
            raise named_error(behind, where) from behind
    return views[0]
