"""Kinds that drop packets, send them twice, or let them wait."""
