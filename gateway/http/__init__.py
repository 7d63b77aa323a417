"""What the gateway speaks over HTTP."""
