"""Kinds that act on single requests and responses."""
