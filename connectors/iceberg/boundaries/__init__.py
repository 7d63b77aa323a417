"""Boundary providers: how far the snapshots of other writers have the log, in each one's terms."""
