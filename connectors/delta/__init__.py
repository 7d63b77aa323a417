"""Delta tables as a cold side: read only, by versions of their log."""
