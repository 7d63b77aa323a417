"""Full implementations of our Protocols in memory, and faults that wrap them."""
