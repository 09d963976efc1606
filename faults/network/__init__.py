"""Fault kinds that drop packets."""
