"""A statement's way: facts, plan, run, receipt, result."""
