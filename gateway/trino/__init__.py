"""Trino's client protocol, for the drivers and tools that speak it."""
