"""The followed tails of tables: decoded segments in memory and on disk, within a budget."""
