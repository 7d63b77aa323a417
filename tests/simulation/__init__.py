"""Exactness shown by programs: the product's protocol over the in-memory log and table.

`explorer` tries every interleaving of a few operations, `simulator` long random histories with
faults; both run the product's own functions (`reading`, `connectors.tiering`) and judge what comes
out by `oracle`, which knows every record that was ever sent. `mutants` shows that they notice.
"""
