"""Fault kinds that end, freeze or restart processes."""
