"""Live tables for other engines: virtual snapshots, their files, and who has been given which."""
