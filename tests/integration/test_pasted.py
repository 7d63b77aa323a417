"""Goal: what README and docs show can be pasted, and does what it says.

Method: every fenced block is found, and a table here says how each is pasted: into one shell, a
Python of its own for each document, the gateway, or a configuration file; a block that the table
does not know fails. README's own blocks come first, in a fresh folder, with real parts; the other
documents continue from there. Only addresses are changed, for machines on which others listen, too.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pathlib
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import psutil
import pytest
import yaml
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from support.ports import reserved_port
from support.waiting import wait_until

import seamline
from seamline.commands import profiles
from seamline.gateway.access import rules
from seamline.gateway.config.load import load
from seamline.sql.parsing import parse

pytestmark = [pytest.mark.integration, pytest.mark.spark]

ROOT = pathlib.Path(__file__).resolve().parents[2]
README, DOCS = "README.md", "docs"
_BLOCK_S = 240.0


@dataclasses.dataclass(frozen=True)
class Block:
    """A fenced block of a document."""

    file: str
    language: str
    text: str

    @property
    def first(self) -> str:
        """Its first line, by which the table below knows it."""
        return self.text.partition("\n")[0]


def blocks(file: str) -> list[Block]:
    text = (ROOT / file).read_text(encoding="utf-8")
    found = re.findall(r"^```([a-z]*)\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    return [Block(file, language, body) for language, body in found if language]


ALL = [
    block
    for path in sorted([README, *(str(p.relative_to(ROOT)) for p in (ROOT / DOCS).rglob("*.md"))])
    if path != "docs/tutorial.md"  # a notebook, which examples/test_tutorial.py runs
    for block in blocks(path)
]
SHOWN = {
    (README, "sh"): [
        "3 records acknowledged in topic bids",
        "created lake.default.bids",
        "│     3 │",
    ],
    (README, "sql"): ["web"],
    (README, "python"): ["('web', 3)"],
    ("docs/tables.md", "seamline table create prices"): [
        "created lake.default.prices",
        "guessed  topic bids on kafka",
    ],
    ("docs/tables.md", "seamline table create orders"): ["trace  varchar"],
    ("docs/http.md", "curl -s localhost:8474/api/v1/statements"): ['"state":"SUCCEEDED"'],
    ("docs/http.md", "curl -s localhost:8474/api/v1/query"): ['"bids": 3}'],
    ("docs/command-line.md", 'seamline query "SELECT * FROM bids LIMIT'): [
        "auction,price,channel",
        "│ Table",
    ],
    ("docs/command-line.md", "seamline query --embedded"): ["│     3 │"],
    ("docs/quickstart.md", "printf"): [
        "created lake.default.clicks",
        "│ /3   │",
        "0 cold",
        "3 hot",
    ],
    ("docs/quickstart.md", "seamline tier"): ["/1", "3 cold", "1 hot"],
    ("docs/quickstart.md", "seamline query"): ["boundary"],
    ("docs/quickstart.md", "python"): ["(4,)\n3 1\n(4,)"],
}
"""What a reader is shown of what comes out, by the file and the language or first words."""
ELSEWHERE = {
    "curl -sN 'localhost:8474/api/v1/tail/": "a stream without an end, followed by test_changes",
    "seamline tail bids --where": "the same",
    "pip install 'seamline[gateway,spark,cli]'\nseamline local up        #": "as README begins",
    "python -m venv try": "installs what is published",
    "-- in Spark\nALTER TABLE": "for another client, as in test_tiering_engines",
    "make demo     #": "make's own verbs, which start from a clone",
    "CREATE TABLE orders WITH (adopt = true": "over a table of another writer, as in test_adopting",
    "seamline table adopt bronze.shop.orders": "over a Delta table, as in test_delta",
    ".venv/bin/python -m pytest tests/simulation": "the tests themselves",
    "INSTALL iceberg; LOAD iceberg;": "run by test_readers, with the extension from a wheel",
    "SET allow_database_iceberg = 1;": "run by test_readers, over object storage",
    "CREATE TABLE events (id bigint, u row(": "of Avro with a union, as in test_formats",
    "connector.name=iceberg": "run by readers/test_trino",
}
"""Blocks that are not pasted here, by how they begin, and why."""


TOPICS = {
    "orders": (b"\0\0\0\0\0\0\0\7", b'{"price": 2.5}', [("trace-id", b"a")]),
    "users": (b"7", b'{"id": 7, "name": "Ada", "score": 1}', []),
    "db.public.users": (b'{"id": 7}', b'{"op": "c", "after": {"id": 7, "name": "Ada"}}', []),
}
"""Topics that a reader of the documents has, with a record each: its key, value and headers."""


def is_elsewhere(block: Block) -> bool:
    return any(block.text.startswith(start) for start in ELSEWHERE)


PASTED = [block for block in ALL if not is_elsewhere(block)]


class Shell:
    """One bash in a folder, which ends at the first command that fails."""

    def __init__(self, folder: pathlib.Path, environment: dict[str, str]) -> None:
        self._output = folder / "shell.log"
        with self._output.open("a") as sink:
            self.process = subprocess.Popen(
                ["bash", "--noprofile", "--norc", "-e"],
                cwd=folder,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=sink,
                stderr=sink,
                text=True,
                start_new_session=True,
            )
        self._blocks = 0

    def paste(self, text: str) -> str:
        """What a block puts out."""
        self._blocks += 1
        start, end = self._output.stat().st_size, f"-- end of block {self._blocks}"
        assert self.process.stdin is not None
        self.process.stdin.write(f"{text}\necho '{end}'\n")
        self.process.stdin.flush()

        def output() -> str:
            return self._output.read_bytes()[start:].decode()

        wait_until(
            lambda: end in output() or self.process.poll() is not None, _BLOCK_S, "the block"
        )
        assert end in output(), output()
        return output()

    def close(self) -> None:
        """Lets it end, after the last of its commands."""
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it has ended by itself
            self.process.stdin.close()
        self.process.wait(60)


def together(settings: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """A configuration, and the part of one that a document shows: its catalogs come beside."""
    both = (
        {**settings[key], **value}
        if isinstance(value, dict) and isinstance(settings.get(key), dict)
        else value
        for key, value in given.items()
    )
    return {**settings, **dict(zip(given, both, strict=True))}


class World:
    """A fresh folder in which README was pasted."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        self.address = f"127.0.0.1:{reserved_port()}"
        self._flight_port = reserved_port()
        tools = pathlib.Path(sys.executable).parent
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("SEAMLINE_", "SPARK_"))}
        cache = os.environ.get("SEAMLINE_JARS")
        self.environment = {
            **kept,
            **({"SEAMLINE_JARS": cache} if cache else {}),
            "PATH": f"{tools}:{os.environ['PATH']}",
            "SEAMLINE_HOME": str(folder / "home"),
            "SEAMLINE_HTTP__PORT": self.address.rpartition(":")[2],
            "SEAMLINE_FLIGHT__PORT": str(self._flight_port),
            "SEAMLINE_URL": f"http://{self.address}",
        }
        self._shell = Shell(folder, self.environment)

    @property
    def shell(self) -> Shell:
        """The shell that blocks are pasted into: another one after a block that failed."""
        if self._shell.process.poll() is not None:
            self._shell.close()
            self._shell = Shell(self.folder, self.environment)
        return self._shell

    def close(self) -> None:
        """Ends all of it as README says."""
        self.shell.paste("kill %1 2>/dev/null || true\nwait  # it may be in a batch")
        self.shell.paste("seamline serve --stop\nseamline local down")
        self._shell.close()
        left = [p for p in psutil.process_iter(["cmdline"]) if self._is_ours(p)]
        psutil.wait_procs(left, 60)
        left = [p for p in left if p.is_running()]
        for process in left:
            process.kill()
        assert left == []

    def _is_ours(self, process: psutil.Process) -> bool:
        return str(self.folder) in " ".join(process.info["cmdline"] or ())

    @property
    def _settings(self) -> dict[str, Any]:
        """The configuration that README's blocks have made; others show a part of one."""
        file = self.folder / "home" / "seamline.yaml"
        return dict(yaml.safe_load(file.read_text(encoding="utf-8")))

    @property
    def bootstrap_servers(self) -> str:
        """The broker that README starts."""
        return str(self._settings["clusters"]["kafka"]["bootstrap_servers"])

    def produce(self, topics: Mapping[str, tuple[bytes, bytes, list[tuple[str, bytes]]]]) -> None:
        """A record in each of the topics."""
        servers = {"bootstrap.servers": self.bootstrap_servers}
        admin = AdminClient(servers)
        for created in admin.create_topics([NewTopic(topic, 1, 1) for topic in topics]).values():
            created.result(60)
        producer = Producer(servers)
        for topic, (key, value, headers) in topics.items():
            producer.produce(topic, value, key, headers=headers)
        assert producer.flush(60) == 0

    def addressed(self, text: str) -> str:
        """A text with the addresses of this world."""
        text = re.sub(r"(127\.0\.0\.1|localhost|gateway):8474", self.address, text)
        text = text.replace("port=8474", f"port={self.address.rpartition(':')[2]}")
        text = text.replace("127.0.0.1:8475", f"127.0.0.1:{self._flight_port}")
        if "127.0.0.1:19092" in text:
            text = text.replace("127.0.0.1:19092", self.bootstrap_servers)
        return text

    def paste(self, block: Block) -> str:
        """What a block puts out."""
        match block.language:
            case "sh":
                return self.shell.paste(self.addressed(block.text))
            case "python":
                return self._python(block)
            case "yaml" if block.first == "# rules.yaml":
                file = self.folder / "rules.yaml"
                file.write_text(block.text, encoding="utf-8")
                return str(rules.read(file))
            case "yaml":
                file = self.folder / "given.yaml"
                given = yaml.safe_load(block.text.replace("…", "0" * 64))
                file.write_text(yaml.safe_dump(together(self._settings, given)), encoding="utf-8")
                secrets = re.findall(r"\$\{env:(\w+)\}", block.text)
                return str(load(file, environment=dict.fromkeys(secrets, "a secret")).config)
            case "toml":
                folder = self.folder / "config" / "seamline"
                folder.mkdir(parents=True)
                (folder / "config.toml").write_text(block.text, encoding="utf-8")
                places = {"XDG_CONFIG_HOME": str(folder.parent)}
                return "".join(str(profiles.load(n, places)) for n in profiles.names(places))
            case "sql":
                return self._sql(block)
        raise AssertionError(f"nobody knows how to paste {block.language}: {block.first}")

    def _python(self, block: Block) -> str:
        """Blocks of one document continue from one another: the ones before are run again."""
        before = [b.text for b in PASTED if (b.file, b.language) == (block.file, "python")]
        script = "\n".join(before[: before.index(block.text) + 1])
        done = subprocess.run(
            [sys.executable, "-c", self.addressed(script)],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=_BLOCK_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def _sql(self, block: Block) -> str:
        if "…" in block.text or "8109744798576441359" in block.text:  # nobody's snapshot or token
            statements = re.split(r"\n(?=SELECT)", block.text.strip())
            return "\n".join(str(parse.parse(statement)) for statement in statements)
        with self.connect() as connection:
            cursor = connection.execute(block.text)
            return str(cursor.fetchall()) if cursor.description else ""

    def connect(self) -> seamline.Connection:
        return seamline.connect(f"http://{self.address}")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    made = World(tmp_path_factory.mktemp("pasted"))
    try:
        for block in PASTED:
            if block.file == README and block.language == "sh":
                check(block, made.paste(block))
        made.produce(TOPICS)
        yield made
    finally:
        made.close()


def check(block: Block, output: str) -> None:
    for (file, which), texts in SHOWN.items():
        if file == block.file and (which == block.language or block.text.startswith(which)):
            assert [text for text in texts if text not in output] == [], output


@pytest.mark.soak
@pytest.mark.parametrize(
    "block",
    [
        pytest.param(
            block,
            id=f"{block.file}-{block.language}-{number}",
            marks=[pytest.mark.prove] if block.file == "docs/spark.md" else [],
        )
        for number, block in enumerate(PASTED)
        if (block.file, block.language) != (README, "sh")
    ],
)
def test_what_is_shown_can_be_pasted(world: World, block: Block) -> None:
    created = re.match(r"(?:CREATE TABLE|seamline table create) (bids|orders|users) ", block.text)
    if created is not None:
        world.shell.paste(f"seamline table drop {created[1]} --yes || true")
    check(block, world.paste(block))


@pytest.mark.soak
def test_the_pipeline_that_readme_starts_tiers(world: World) -> None:
    def tiered() -> bool:
        with world.connect() as connection:
            found = connection.execute('SELECT sum(boundary) FROM "bids$seam"').fetchall()
        return bool(found[0][0])

    wait_until(tiered, _BLOCK_S, "a batch")
    output = world.shell.paste('seamline query "SELECT count(*) FROM bids"')
    assert "cold" in output


@pytest.mark.soak
def test_lines_are_produced_from_files_and_from_standard_input(world: World) -> None:
    lines = r"""'{"n": "17", "id": "a"}\n\n{"n": "18", "id": "b"}\n'"""
    output = world.shell.paste(
        f"printf {lines} | seamline local produce - --topic odd --key id --partitions 1\n"
        "printf 'no json\\n' | seamline local produce - --topic odd || echo refused\n"
        "printf '{}' | seamline local produce - --topic odd --key id || echo refused\n"
        "printf '{}' | seamline local produce - || echo refused\n"
        'seamline table create odd --topic odd --schema "n bigint" --on-error skip'
    )
    assert "2 records acknowledged in topic odd" in output
    assert "error: INVALID_ARGUMENT: line 1 is not JSON" in output
    assert "error: INVALID_ARGUMENT: line 1 has no 'id'" in output
    assert output.count("refused\n") == 3
    assert (
        "note: n: the string '17' where bigint is expected (2 of 2 sampled records do not fit): "
        "such a record is left out." in output
    )
    with world.connect() as connection:
        found = connection.execute("SELECT from_utf8(_kafka_key) FROM odd").fetchall()
        keys = connection.execute("SELECT from_utf8(_kafka_key) FROM kafka.default.odd").fetchall()
    assert (found, sorted(keys)) == ([], [("a",), ("b",)])


def test_every_block_has_a_way() -> None:
    assert len(PASTED) + len(ELSEWHERE) == len(ALL)
    assert {block.language for block in PASTED} <= {"sh", "python", "sql", "toml", "yaml"}
    assert [b.file for b in PASTED].count(README) == 3
