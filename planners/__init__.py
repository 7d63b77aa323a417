"""Turns a bound query and table facts into a physical plan. Pure: no I/O, no clock."""
