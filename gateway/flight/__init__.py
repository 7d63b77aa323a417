"""Arrow Flight SQL: the gateway's statements over gRPC, with their rows as Arrow."""
