"""The cold tier: catalogs, snapshots, boundaries, and file planning."""
