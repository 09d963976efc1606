"""Kinds that hit clients, or their connections."""
