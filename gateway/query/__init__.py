"""The path of a statement: facts, plan, run, receipt, result."""
