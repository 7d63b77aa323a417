"""Arrow Flight SQL: the gateway's statements over gRPC, their rows as Arrow."""
