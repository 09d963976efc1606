"""Fault kinds that hit clients, or their connections."""
