"""Fault kinds that drop or reject packets."""
