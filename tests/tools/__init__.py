"""Programs of tools that people use, each run in an environment of its own."""
