"""Kinds that drop packets."""
