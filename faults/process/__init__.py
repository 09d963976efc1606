"""Fault kinds that end or freeze processes."""
