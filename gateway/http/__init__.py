"""The gateway's HTTP interface."""
