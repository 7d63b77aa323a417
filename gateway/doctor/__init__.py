"""What is wrong with a machine and a configuration, and what to do about it."""
