"""The catalogs and clusters of a gateway: connections to them, and names of what is in them."""
