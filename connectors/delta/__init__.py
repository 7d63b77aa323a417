"""Delta tables as a read-only cold side, by versions of their log."""
