"""The gateway's HTTP interface, and what everything that speaks HTTP shares."""
