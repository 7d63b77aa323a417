"""The path of a query: facts, plan, run, receipt, token."""
