"""A dashboard whose tiles agree while sales keep coming: SQLAlchemy, pandas, Polars, one token.

Each tile is a query of its own, so each would see a later moment than the one before, and the sum
of the regions would not be the total beside it. A token makes all of them one moment, however long
the dashboard takes. The cells run from top to bottom in an editor that knows `# %%`, or as a whole:

    python examples/dashboard.py
"""

# %% What the dashboard shows: a topic of sales, and a shop that keeps selling
from __future__ import annotations

import random
import threading

import pandas
import sqlalchemy
from sqlalchemy import func, select, text
from stand import URL, fresh_topics, produce

import seamline

SALES = "example_sales"
REGIONS, PRODUCTS = ("north", "south", "west"), ("tea", "cup", "pot")


def sell(count: int) -> None:
    """Some sales, at once."""
    chosen = (
        {"region": random.choice(REGIONS), "product": random.choice(PRODUCTS), "cents": n % 7 * 100}
        for n in range(count)
    )
    produce(SALES, [(None, sale) for sale in chosen])


def go_on_selling(closed: threading.Event) -> None:
    """Sales until the shop is closed."""
    while not closed.is_set():
        sell(20)


# %% The tiles
def tiles(
    connection: sqlalchemy.Connection, sales: sqlalchemy.Table
) -> dict[str, pandas.DataFrame]:
    """The total, and the same by region and by product."""
    revenue = func.sum(sales.c.cents).label("cents")
    queries = {
        "total": select(revenue),
        "region": select(sales.c.region, revenue).group_by(sales.c.region),
        "product": select(sales.c["product"], revenue).group_by(sales.c["product"]),
    }
    return {name: pandas.read_sql(query, connection) for name, query in queries.items()}


def sums(found: dict[str, pandas.DataFrame]) -> set[int]:
    """The revenue that each tile adds up to: one number where they agree."""
    return {int(frame["cents"].sum()) for frame in found.values()}


# %% The dashboard: pin a moment, then ask as often as it takes
def dashboard() -> None:
    """Draws the tiles twice, at the same moment, and then at a later one."""
    engine = sqlalchemy.create_engine(URL.replace("http://", "seamline://") + "/lake/default")
    sales = sqlalchemy.Table(SALES, sqlalchemy.MetaData(), autoload_with=engine)
    with engine.connect() as connection:
        pin = connection.execute(select(func.count()).select_from(sales))
        token = pin.cursor.token
        before = pin.scalar_one()

        connection.execute(text(f"SET SESSION token = '{token}'"))
        first = tiles(connection, sales)
        sell(100)  # meanwhile
        again = tiles(connection, sales)
        assert len(sums(first)) == 1, "tiles of one moment add up to the same"
        assert sums(first) == sums(again), "and do so whenever the token is used"

        connection.execute(text("RESET SESSION token"))
        now = connection.execute(select(func.count()).select_from(sales)).scalar_one()
        assert now >= before + 100
        print(first["region"].sort_values("region").to_string(index=False))


# %% The same result without a copy, in Polars
def best_region() -> str:
    """Arrow's record batches are taken over as they are."""
    with seamline.connect(URL) as connection:
        cursor = connection.execute(
            f"SELECT region, sum(cents) AS cents FROM {SALES} GROUP BY region"
        )
        return str(cursor.fetch_polars().sort("cents", descending=True)["region"][0])


# %% Run it
def main() -> None:
    """Opens the shop, looks at the dashboard, closes the shop."""
    closed = threading.Event()
    with fresh_topics(SALES):
        with seamline.connect(URL) as connection:
            columns = "region varchar, product varchar, cents bigint"
            connection.execute(f"CREATE TABLE {SALES} ({columns}) WITH (topic = '{SALES}')")
        sell(500)
        shop = threading.Thread(target=go_on_selling, args=(closed,))
        shop.start()
        try:
            dashboard()
        finally:
            closed.set()
            shop.join()
        assert best_region() in REGIONS
    print("all tiles agree")


if __name__ == "__main__":
    main()
