"""Uses an option wherever there are options: `python further_option.py OPTIONS_MODULE FOLDER`.

The module of options is another than the product's own, with one option more, `color`.
"""

from __future__ import annotations

import importlib.util
import json
import pathlib
import sys
from typing import Any


def load_options(path: str) -> None:
    """Makes every later import of the options find the module of a file."""
    name = "seamline.seam.options"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    sys.modules[name] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)


def uses(folder: pathlib.Path) -> dict[str, Any]:
    """What each use of the option gives."""
    from click.testing import CliRunner

    from seamline.gateway.cli.table import table
    from seamline.seam.binding import TopicBinding
    from support import interface_pages, offline
    from support.adopting import FLAT, NAMESPACE, TOPIC, Shop
    from support.creating import World

    world = World(offline.config(folder / "created"))
    create = "CREATE TABLE t (id bigint) WITH (topic = 'bids', color = '{}')"
    refused, created = world.run(create.format("mauve")), world.run(create.format("red"))

    def bound() -> TopicBinding:
        found = world.catalog("lake").load(("default", "t")).state.properties
        binding = TopicBinding.from_properties(found)
        assert binding is not None
        assert TopicBinding.from_properties(binding.to_properties()) == binding
        return binding

    before = bound().settings()["color"]
    altered = world.run("ALTER TABLE t SET PROPERTIES color = 'green'")
    shop = Shop(folder / "adopted")
    shop.create(FLAT)
    shop.produce(4)
    shop.copy({0: 2, 1: 2})
    name = f"lake.{NAMESPACE}.{TOPIC}"
    gateway = shop.gateway()
    gateway.statement(
        f"CREATE TABLE {name} WITH (adopt = true, topic = '{TOPIC}', color = 'red',"
        " columns = ARRAY['partition=k_partition', 'offset=k_offset'])"
    )
    ((shown,),) = gateway.rows(f"SHOW CREATE TABLE {name}")
    listed = gateway.rows(
        "SELECT default_value, type, description FROM system.metadata.table_properties"
        " WHERE property_name = 'color'"
    )
    helps = {
        command: CliRunner().invoke(table, [command, "--help"], terminal_width=200).output
        for command in ("create", "adopt", "alter")
    }
    return {
        "create": [refused, created, before],
        "alter": [altered, bound().settings()["color"]],
        "adopt": [shop.state.properties["seamline.color"], "color = 'red'" in shown],
        "system": listed,
        "flags": {
            c: [x.strip() for x in h.splitlines() if "--color" in x] for c, h in helps.items()
        },
        "docs": [row for row in interface_pages.options_of_tables() if "`color`" in row],
    }


if __name__ == "__main__":
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
    load_options(sys.argv[1])
    print(json.dumps(uses(pathlib.Path(sys.argv[2]))))
