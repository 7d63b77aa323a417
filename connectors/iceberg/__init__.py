"""The cold tier: metadata, manifests, partitions and deletes, as Iceberg specifies them."""
