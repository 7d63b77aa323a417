"""A web service that reads its own writes: orders go to Kafka, and are read back by SQL.

Reads say `freshness = 'cached'`: they take what the gateway has already followed, and ask Kafka
nothing, which is the cheapest read there is. On its own it might miss an order placed a moment
ago. So the service hands a write token to whoever places one, a browser sends it along, and a read
waits for just that order, on whichever replica or gateway it lands. There is no cache to keep, and
no database beside the topic.

`app` is an ASGI application, which any ASGI server runs (`uvicorn orders_service:app`).
Run as a program, the file calls it itself:

    python examples/orders_service.py
"""

from __future__ import annotations

import asyncio
import json
import urllib.parse
import uuid
from typing import Any

import httpx2
from confluent_kafka.aio import AIOProducer
from stand import SERVERS, URL, fresh_topics

import seamline
import seamline.aio

ORDERS = "example_orders"
TOKEN = "x-write-token"
CUSTOMERS, ORDERS_EACH = 5, 4


class Orders:
    """Places orders and lists those of a customer."""

    def __init__(self) -> None:
        self._producer = AIOProducer(
            {"bootstrap.servers": SERVERS, "acks": "all"}, buffer_timeout=0.02
        )
        self._connection = seamline.aio.connect(URL)

    async def place(self, order: dict[str, Any]) -> str:
        """Places an order, and returns the token with which a read sees it."""
        key = order["customer"].encode()
        delivered = await self._producer.produce(ORDERS, json.dumps(order).encode(), key=key)
        message = await delivered
        return seamline.write_token({message.partition(): message.offset()}, table=ORDERS)

    async def of(self, customer: str, token: str | None) -> list[str]:
        """The ids of a customer's orders, including those that the token stands for."""
        cursor = await self._connection.execute(
            f"SELECT id FROM {ORDERS} WHERE customer = ? ORDER BY id",
            [customer],
            freshness="cached",
            after=[token] if token else [],
            timeout=10,
        )
        return [order async for (order,) in cursor]

    async def close(self) -> None:
        """Waits until everything in flight has arrived."""
        await self._producer.close()
        await self._connection.close()


orders: Orders
"""What the routes below serve; made with the loop that runs them."""


async def app(scope: Any, receive: Any, send: Any) -> None:
    """`POST /orders`, and `GET /orders?customer=…`."""
    body = json.loads((await receive())["body"] or b"null")
    headers = dict(scope["headers"])
    if scope["method"] == "POST":
        token = await orders.place(body)
        answer: Any = {"placed": body["id"]}
        extra = [(TOKEN.encode(), token.encode())]
    else:
        (customer,) = urllib.parse.parse_qs(scope["query_string"].decode())["customer"]
        given = headers.get(TOKEN.encode())
        answer, extra = await orders.of(customer, given and given.decode()), []
    kind = (b"content-type", b"application/json")
    await send({"type": "http.response.start", "status": 200, "headers": [kind, *extra]})
    await send({"type": "http.response.body", "body": json.dumps(answer).encode()})


async def customer(client: httpx2.AsyncClient, name: str) -> None:
    """Somebody who places orders, and looks at all of them after each."""
    placed: list[str] = []
    for _ in range(ORDERS_EACH):
        placed.append(uuid.uuid4().hex)
        answer = await client.post("/orders", json={"id": placed[-1], "customer": name})
        token = {TOKEN: answer.headers[TOKEN]}
        listed = await client.get("/orders", params={"customer": name}, headers=token)
        assert listed.json() == sorted(placed), "what was placed is listed, at once"


async def main() -> None:
    """Several customers at once."""
    global orders
    with fresh_topics(ORDERS):
        async with seamline.aio.connect(URL) as connection:
            columns = "id varchar, customer varchar"
            await connection.execute(f"CREATE TABLE {ORDERS} ({columns}) WITH (topic = '{ORDERS}')")
        orders = Orders()
        transport = httpx2.ASGITransport(app=app)
        try:
            async with httpx2.AsyncClient(transport=transport, base_url="http://shop") as client:
                await asyncio.gather(*(customer(client, f"c{n}") for n in range(CUSTOMERS)))
        finally:
            await orders.close()
    print("everybody saw what they had written")


if __name__ == "__main__":
    asyncio.run(main())
