"""Fault kinds that act on single requests and responses."""
