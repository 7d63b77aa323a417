"""The embedded stack: a real broker, an SQLite catalog and a warehouse in one folder."""
