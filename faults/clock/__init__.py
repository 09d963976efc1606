"""Kinds that move wall clocks."""
