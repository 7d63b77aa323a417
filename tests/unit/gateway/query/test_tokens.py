"""Goal: a token says what it was given for, and nobody can make one, change one or use another's.

Method: tokens signed and then read by the wrong key, person, time and version, and in changed form.
"""

from __future__ import annotations

import base64
import json
import pathlib
import threading
import uuid
from random import Random
from typing import Any

import pytest
from support import seams

from seamline.errors import INVALID_TOKEN, TOKEN_EXPIRED, SeamlineError
from seamline.gateway.config.model import HttpConfig
from seamline.gateway.query.tokens import TokenSigner, Write, kept_secret
from seamline.seam.offsets import Offsets
from seamline.seam.seam import ColdPart, LogPart, Seam

SEAM = Seam(
    table=("lake", "default", "bids"),
    table_uuid="u-1",
    schema_id=3,
    cold=ColdPart(snapshot_id=2**62, foreign_change_id=7),
    log=LogPart(topic_id="topic-1"),
    boundary=Offsets({0: 10, 12: 5}),
    end=Offsets({0: 15, 12: 5}),
)
COLD = Seam(("lake", "default", "plain"), "u-2", 0)
DAY_S = 86_400
SIGNER = TokenSigner("secret", DAY_S)
TOKEN = SIGNER.sign([SEAM, COLD], "ann")


def refused(token: str, principal: str = "ann", signer: TokenSigner = SIGNER) -> SeamlineError:
    with pytest.raises(SeamlineError) as caught:
        signer.read(token, principal)
    return caught.value


def test_a_token_is_read_as_it_was_signed() -> None:
    assert SIGNER.read(TOKEN, "ann") == (SEAM, COLD)
    assert TokenSigner("secret", DAY_S).read(TOKEN, "ann") == (SEAM, COLD), "by any gateway"


def test_it_belongs_to_whom_it_was_given() -> None:
    assert refused(TOKEN, "bob").code is INVALID_TOKEN


def test_it_is_worth_nothing_elsewhere_or_too_late() -> None:
    assert refused(TOKEN, signer=TokenSigner("other", DAY_S)).code is INVALID_TOKEN
    assert refused(TOKEN, signer=TokenSigner("secret", -1)).code is TOKEN_EXPIRED


@pytest.mark.parametrize("position", range(0, len(TOKEN) - 1, 7))
def test_no_character_can_be_changed(position: int) -> None:
    other = "A" if TOKEN[position] != "A" else "B"
    changed = TOKEN[:position] + other + TOKEN[position + 1 :]
    assert refused(changed).code is INVALID_TOKEN


@pytest.mark.parametrize(
    "text", ["", ".", "..", "a.b.c", "ü", "\0", TOKEN + "x", "x" * 100_000, TOKEN[:-9]]
)
def test_what_is_no_token_is_called_so(text: str) -> None:
    assert refused(text).code is INVALID_TOKEN


@pytest.mark.parametrize(
    "body",
    [
        [1, "ann", []],
        [2, "ann"],
        [2, "ann", [[1]]],
        [2, "ann", 5],
        [2, "ann", [[["a"], "u", 1, 1, "t", ["x"], [1], [1], [1], None, 0]]],
        [2, "ann", [[["a"], "u", 1, 1, "t", [0, 1], [1], [1], [1], None, 0]]],
        {"a": 1},
        None,
    ],
)
def test_another_version_or_shape_is_refused_though_it_is_signed(body: Any) -> None:
    assert refused(str(SIGNER._serializer.dumps(body))).code is INVALID_TOKEN


def test_a_secret_token_tells_nothing_but_to_gateways() -> None:
    keeper = TokenSigner("secret", DAY_S, is_secret=True)
    late = seams.replace(SEAM, end=Offsets({0: 10**12, 12: 10**9}))
    tokens = [keeper.sign([seam], "ann") for seam in (SEAM, late)]
    assert abs(len(tokens[0]) - len(tokens[1])) < 20, "nor does its length"
    for token, seam in zip(tokens, (SEAM, late), strict=True):
        assert keeper.read(token, "ann") == (seam,)
        assert SIGNER.read(token, "ann") == (seam,), "with the same secret, by any gateway"
        assert refused(token, "bob", keeper).code is INVALID_TOKEN
        payload = str(SIGNER._serializer.loads(token))
        assert "topic-1" not in payload
        assert "u-1" not in payload
    assert keeper.read(TOKEN, "ann") == (SEAM, COLD), "one that was made before"


def test_the_token_of_a_write_is_as_secret() -> None:
    keeper = TokenSigner("secret", DAY_S, is_secret=True)
    own = Write("bids", Offsets({0: 10, 1: 1}), is_own=True)
    text = keeper.write_text(own)
    assert keeper.after([text], "ann").writes == (own,)
    assert "bids" not in str(SIGNER._serializer.loads(text.removeprefix("w2.")))
    (of_client,) = keeper.after([write_token({"table": "bids", "offsets": {"0": 9}})], "ann").writes
    assert not of_client.is_own
    assert keeper.write_text(of_client).startswith("w1."), "nor does it become a gateway's own"
    for broken in ("w2.", "w2.x", text[:-1], text + "x", "w2." + TOKEN):
        with pytest.raises(SeamlineError) as caught:
            keeper.after([broken], "ann")
        assert caught.value.code is INVALID_TOKEN


# --- Sessions and writes -------------------------------------------------------------------------


def write_token(body: Any) -> str:
    return "w1." + base64.urlsafe_b64encode(json.dumps(body).encode()).decode().rstrip("=")


def test_a_session_is_taken_however_old_and_a_write_as_the_end_after_it() -> None:
    old = TokenSigner("secret", -1)
    write = write_token({"table": "bids", "offsets": {"0": 9, "1": 0}})
    after = old.after([TOKEN, write], "ann")
    assert after.seen == (SEAM, COLD)
    (found,) = after.writes
    assert (found.table, found.end) == ("bids", Offsets({0: 10, 1: 1}))


@pytest.mark.parametrize(
    "token",
    [
        "w1.",
        "w1.!!",
        "w1.ü",
        write_token([]),
        write_token({"table": None}),
        write_token({"table": None, "offsets": {"x": 1}}),
        write_token({"table": None, "offsets": {"0": 1.5}}),
    ],
)
def test_a_broken_write_token_is_called_so(token: str) -> None:
    with pytest.raises(SeamlineError) as caught:
        SIGNER.after([token], "ann")
    assert caught.value.code is INVALID_TOKEN


def test_tokens_in_one_text_are_all_of_them() -> None:
    others = seams.replace(SEAM, snapshot_id=8, end=Offsets({0: 12, 12: 99}))
    joined = ",".join([TOKEN, SIGNER.sign([others], "ann"), TOKEN])
    assert SIGNER.after([joined], "ann").seen == (SEAM, COLD, others)


def test_a_session_fits_a_request_many_times_over() -> None:
    """Fifty tables of a hundred partitions, with offsets as they are in production."""
    random = Random(11)
    fifty = [
        Seam(
            ("lake", "default", f"table_{number}"),
            str(uuid.UUID(int=random.getrandbits(128))),
            3,
            cold=ColdPart(
                snapshot_id=random.getrandbits(62),
                foreign_change_id=random.getrandbits(62),
                sequence_number=random.randrange(100_000),
            ),
            log=LogPart(
                topic_id=base64.b64encode(random.randbytes(16)).decode(),
                end_epochs=Offsets(dict.fromkeys(ends, 7)),
            ),
            boundary=Offsets({p: start - random.randrange(50_000) for p, start in ends.items()}),
            end=ends,
        )
        for number in range(50)
        for ends in [Offsets({p: random.randrange(10**9, 10**10) for p in range(100)})]
    ]
    token = SIGNER.sign(fifty, "ann")
    assert SIGNER.read(token, "ann") == tuple(fifty)
    assert SIGNER.after([token], "ann").seen == tuple(fifty)
    assert len(token) < HttpConfig().request_bytes_max / 10


# --- The kept secret -----------------------------------------------------------------------------


def test_the_secret_is_made_once_however_many_ask_and_is_the_owners_alone(
    tmp_path: pathlib.Path,
) -> None:
    path, found = tmp_path / "state" / "secret", []
    threads = [threading.Thread(target=lambda: found.append(kept_secret(path))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert set(found) == {path.read_text(encoding="utf-8")}
    assert len(found[0]) >= 32
    assert path.stat().st_mode & 0o777 == 0o600
    assert [entry.name for entry in path.parent.iterdir()] == ["secret"]
