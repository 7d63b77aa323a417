"""How brokers describe a topic: its id and its partitions, on which two brokers must agree.

Offsets come from the leaders of a topic, its id from any broker. A broker that does not know yet
that a topic was recreated returns the old id with the offsets of the new log, which would then be
taken for the old one. So if a cluster has several brokers, two are asked until they agree.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from confluent_kafka import KafkaError, KafkaException, Uuid
from confluent_kafka.admin import TopicDescription

from seamline.connectors.kafka.cluster import named_error
from seamline.errors import NOT_SUPPORTED, SeamlineError

NO_ID = str(Uuid(0, 0))
"""What a client reports if the broker has no ids: the same for every topic."""


def partitions_of(topic: TopicDescription) -> tuple[int, ...]:
    """Returns the partitions of a topic, sorted."""
    return tuple(sorted(partition.id for partition in topic.partitions))


def agreed(views: Sequence[Mapping[str, TopicDescription]]) -> Mapping[str, TopicDescription]:
    """Returns the topics as all views have them.

    Raises:
        SeamlineError: KAFKA_UNAVAILABLE where the views differ, which a retry resolves;
            NOT_SUPPORTED for a topic without an id.
    """
    for name in views[0]:
        said = {(str(view[name].topic_id), partitions_of(view[name])) for view in views}
        if any(topic_id == NO_ID for topic_id, _ in said):
            raise SeamlineError(
                NOT_SUPPORTED,
                f"the brokers give topic {name} no id: recreating it would go unnoticed",
                hint="Topics have ids since Kafka 2.8, with inter.broker.protocol.version 2.8.",
            )
        if len(said) > 1:
            behind = KafkaException(KafkaError(KafkaError.LEADER_NOT_AVAILABLE))
            where = f"brokers do not agree yet which topic {name} is"
            raise named_error(behind, where) from behind
    return views[0]
