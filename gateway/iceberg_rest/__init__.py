"""Live tables for other engines: virtual snapshots, their files, and who was given which."""
