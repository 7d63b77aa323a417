"""The Protocols of the outside world, and the values that cross them."""
