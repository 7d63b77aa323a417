"""What a bound tree consists of: calls, casts, correlated subqueries, and names."""
