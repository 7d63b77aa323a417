"""The DB-API 2.0 client: connections, cursors, and how they communicate with a gateway."""
