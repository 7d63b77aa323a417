"""The `seamline` commands that need only the client."""
