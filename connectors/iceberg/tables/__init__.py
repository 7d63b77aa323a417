"""Tables of a catalog: loaded, scanned, written, changed and landed on."""
