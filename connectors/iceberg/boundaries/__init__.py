"""Boundary providers: how much of the log the snapshots of other writers hold."""
