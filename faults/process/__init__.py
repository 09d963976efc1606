"""Kinds that end, freeze or restart processes."""
