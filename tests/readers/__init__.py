"""Live tables read by what people read Iceberg with, each in an environment of its own."""
