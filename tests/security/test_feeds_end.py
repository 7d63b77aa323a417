"""Goal: a stream that outlives what let it in does not continue.

Method: a feed over a topic in memory, of a user who is taken out of the passwords meanwhile; what
came before is shown, and then the stream ends by name.
"""

from __future__ import annotations

import contextlib
import json
import pathlib

import bcrypt
import urllib3
from support import offline
from support.gateway import Gateway


def test_a_feed_ends_with_what_let_it_in(tmp_path: pathlib.Path) -> None:
    passwords = tmp_path / "passwords"
    hashed = bcrypt.hashpw(b"apple", bcrypt.gensalt(4)).decode()
    passwords.write_text(f"ann:{hashed}\nbob:{hashed}\n", encoding="utf-8")
    lines = f"tail: {{follow: false}}\nauth: {{passwords: {passwords}}}\n"
    config = offline.load_config(tmp_path, lines)
    connections = offline.MemoryConnections(config)
    connections.memory.create_topic("bids", 1)
    with contextlib.closing(Gateway(config, connections=connections)) as gateway:
        gateway.rows("CREATE TABLE bids (id bigint) WITH (topic = 'bids')")
        with urllib3.PoolManager(retries=False, timeout=60.0) as pool:
            answer = pool.request(
                "GET",
                f"{gateway.url}/api/v1/tail/bids?from=beginning",
                headers=urllib3.util.make_headers(basic_auth="ann:apple"),
                preload_content=False,
            )
            assert answer.status == 200, answer.data
            connections.memory.produce("bids", 0, json.dumps({"id": 1}).encode())
            text = ""
            for part in answer.stream():
                text += part.decode()
                if "event: rows" in text:
                    passwords.write_text(f"bob:{hashed}\n", encoding="utf-8")
    assert 'data: {"data":[[1' in text
    assert text.index("event: rows") < text.index("event: error")
    assert '"UNAUTHENTICATED"' in text[text.index("event: error") :]
