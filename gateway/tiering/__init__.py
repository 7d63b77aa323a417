"""The pipeline that moves tails into tables."""
