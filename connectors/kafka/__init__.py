"""The hot tier: cluster facts, offsets, the tail, and the one decoder of records."""
