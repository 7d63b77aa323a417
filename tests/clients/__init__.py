"""Every client that people use asks one gateway the same: `make clients`."""
