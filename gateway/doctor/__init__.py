"""Diagnoses what is wrong with a machine and a configuration, and says what to do about it."""
