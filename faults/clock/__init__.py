"""Fault kinds that move wall clocks."""
