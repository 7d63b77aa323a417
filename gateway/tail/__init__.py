"""The tails of tables, followed: decoded segments in memory and on disk, within a budget."""
