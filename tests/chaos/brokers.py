"""Three brokers, each behind a proxy of its own, and one controller.

Every partition is on all three, and two must have a record before it is acknowledged, so that
none is lost with a broker. The first broker is the controller, too. The others reach it through a
proxy: where that link is cut, a broker continues with what it knows of topics and leaders, while
the rest of the cluster continues without it.
"""

from __future__ import annotations

import base64
import functools
import pathlib
import re
import shutil
import uuid
from collections.abc import Mapping
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient, NewTopic

from chaos import archives
from chaos.processes import Process
from chaos.proxy import HOST, Mode, Proxy
from seamline.connectors.jvm.java import Java
from seamline.gateway.dev.local import storage
from seamline.gateway.dev.local.ports import Ports

NUMBERS = (1, 2, 3)
_CONTROLLER = 1
_REQUEST_S = 5.0
_PORTS = ("direct", "behind", "proxy", "controller")
PORTS = len(NUMBERS) * len(_PORTS)
"""Ports that are needed."""

CUT = Mode(swallow_requests=True, swallow_replies=True)

_PROPERTIES = """\
process.roles={roles}
node.id={number}
controller.quorum.voters=1@{host}:{controller}
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://{host}:{direct},PROXIED://{host}:{behind}{controlling}
advertised.listeners=PLAINTEXT://{host}:{direct},PROXIED://{host}:{proxy}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,PROXIED:PLAINTEXT,CONTROLLER:PLAINTEXT
inter.broker.listener.name=PLAINTEXT
log.dirs={data}
auto.create.topics.enable=false
default.replication.factor=3
min.insync.replicas=2
unclean.leader.election.enable=false
leader.imbalance.check.interval.seconds=8
replica.lag.time.max.ms=5000
group.initial.rebalance.delay.ms=0
offsets.topic.num.partitions=1
offsets.topic.replication.factor=3
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor=3
transaction.state.log.min.isr=2
transaction.abort.timed.out.transaction.cleanup.interval.ms=1000
log.retention.check.interval.ms=2000
log.cleaner.backoff.ms=2000
log.cleaner.dedupe.buffer.size=4194304
log.segment.delete.delay.ms=1000
broker.session.timeout.ms=4000
broker.heartbeat.interval.ms=1000
num.io.threads=3
num.network.threads=2
"""


class Brokers:
    """The cluster.

    Args:
        directory: Holds its storage.
        java: Runs it.
        jars: Kafka's.
        ports: As many as `PORTS`, free.
        environment: Of each process.
    """

    def __init__(
        self,
        directory: pathlib.Path,
        java: Java,
        jars: pathlib.Path,
        ports: list[int],
        environment: Mapping[str, str],
    ) -> None:
        self._java = java
        self._jars = jars
        width = len(_PORTS)
        self._ports = {
            number: dict(zip(_PORTS, ports[place * width : (place + 1) * width], strict=True))
            for place, number in enumerate(NUMBERS)
        }
        self.direct_servers = self._servers("direct")
        self.proxied_servers = self._servers("proxy")
        self._format(directory)
        self.network = Network(
            [Proxy(found["proxy"], found["behind"]) for found in self._ports.values()]
        )
        controller = self._ports[_CONTROLLER]["controller"]
        self._links = {
            number: Proxy(found["controller"], controller)
            for number, found in self._ports.items()
            if number != _CONTROLLER
        }
        self.processes = {
            number: Process(
                f"broker {number}",
                functools.partial(self.command, number),
                directory / f"broker-{number}.log",
                {**environment, **archives.environment("broker")},
                is_ready=functools.partial(self.is_known, number),
            )
            for number in NUMBERS
        }

    def start(self, seconds: float) -> None:
        """Starts all, and waits until each is known to the others."""
        for process in self.processes.values():
            process.start()
        for process in self.processes.values():
            process.wait_until_ready(seconds)

    def close(self) -> None:
        """Ends the network; the processes end with the stack's."""
        self.network.close()
        for link in self._links.values():
            link.close()

    def link(self, number: int) -> Proxy:
        """A broker's path to the controller; the controller itself has none."""
        return self._links[number]

    @property
    def linked(self) -> tuple[int, ...]:
        """Brokers whose path to the controller can be cut."""
        return tuple(self._links)

    def is_known(self, number: int) -> bool:
        """Whether another broker lists it: the controller has let it in, with all that is new."""
        other = next(n for n in NUMBERS if n != number)
        admin = AdminClient(direct_client(self._address(other)))
        try:
            return number in admin.list_topics(timeout=1).brokers
        except KafkaException:
            return False

    def topic_ids(self, topic: str) -> list[str]:
        """The id that each broker knows a topic by, empty where it knows none.

        One that does not answer is left out: it knows everything new before it answers again.
        """
        found = []
        for number in NUMBERS:
            admin = AdminClient(direct_client(self._address(number)))
            asked = admin.describe_topics(TopicCollection([topic]), request_timeout=_REQUEST_S)
            try:
                found.append(str(asked[topic].result(_REQUEST_S).topic_id))
            except KafkaException as error:
                if error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                    found.append("")
            except TimeoutError:
                continue
        return found

    def command(self, number: int) -> list[str]:
        """Returns the command that starts a broker."""
        return [
            *(str(self._java.path), "-Xmx320m", "-XX:+UseSerialGC"),
            "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
            *("-cp", f"{self._jars}/*", "kafka.Kafka", str(self._properties[number])),
        ]

    def one_works(self) -> bool:
        """Whether the first broker takes and drops a topic, alone: it loads what it will need."""
        admin = AdminClient(direct_client(self._address(_CONTROLLER)))
        name = f"first-{uuid.uuid4().hex}"
        new = NewTopic(name, 1, replication_factor=1)
        try:
            admin.create_topics([new])[name].result(_REQUEST_S)
            admin.delete_topics([name])[name].result(_REQUEST_S)
        except (KafkaException, TimeoutError):
            return False
        return True

    def _servers(self, listener: str) -> str:
        return ",".join(f"{HOST}:{found[listener]}" for found in self._ports.values())

    def _address(self, number: int) -> str:
        return f"{HOST}:{self._ports[number]['direct']}"

    # --- Storage -------------------------------------------------------------------------------

    def _format(self, directory: pathlib.Path) -> None:
        """Formats one storage, and derives the others from it: they differ only in their owner."""
        first = directory / f"data-{_CONTROLLER}"
        ports = self._ports[_CONTROLLER]
        storage.format_once(
            first, self._java, self._jars, Ports(ports["direct"], ports["controller"])
        )
        self._properties: dict[int, pathlib.Path] = {}
        for number in NUMBERS:
            data = directory / f"data-{number}"
            if number != _CONTROLLER:
                shutil.copytree(first, data)
                _give_to(number, data / "meta.properties")
            is_controller = number == _CONTROLLER
            found = self._ports[number]
            text = _PROPERTIES.format(
                number=number,
                roles="broker,controller" if is_controller else "broker",
                controlling=f",CONTROLLER://{HOST}:{found['controller']}" if is_controller else "",
                host=HOST,
                data=data,
                **found,
            )
            self._properties[number] = directory / f"server-{number}.properties"
            self._properties[number].write_text(text, encoding="utf-8")


class Network:
    """What is between the product and the brokers: their proxies, together or one at a time."""

    def __init__(self, proxies: list[Proxy]) -> None:
        self._proxies = proxies

    @property
    def hits(self) -> int:
        """How many pieces the last mode touched."""
        return sum(proxy.hits for proxy in self._proxies)

    @property
    def held(self) -> int:
        """How many fetches wait to be let go."""
        return sum(proxy.held for proxy in self._proxies)

    def behave(self, mode: Mode) -> None:
        """Changes how all connections behave."""
        for proxy in self._proxies:
            proxy.behave(mode)

    def hold(self, *marks: bytes) -> None:
        """Holds back every fetch that contains one of the marks."""
        for proxy in self._proxies:
            proxy.hold(*marks)

    def let_go(self) -> None:
        """Passes on what was held back."""
        for proxy in self._proxies:
            proxy.let_go()

    def heal(self) -> int:
        """Behaves well again; returns how many pieces the last mode touched."""
        return sum(proxy.heal() for proxy in self._proxies)

    def close(self) -> None:
        """Stops forwarding."""
        for proxy in self._proxies:
            proxy.close()


def _give_to(number: int, path: pathlib.Path) -> None:
    identity = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    text = re.sub(
        r"^node\.id=.*$", f"node.id={number}", path.read_text("utf-8"), flags=re.MULTILINE
    )
    text = re.sub(r"^directory\.id=.*$", f"directory.id={identity}", text, flags=re.MULTILINE)
    path.write_text(text, encoding="utf-8")


def direct_client(servers: str) -> dict[str, Any]:
    """Settings of clients that should find a broker again as soon as it is back."""
    return {
        "bootstrap.servers": servers,
        "log_level": 0,
        "reconnect.backoff.ms": 50,
        "reconnect.backoff.max.ms": 200,
    }
