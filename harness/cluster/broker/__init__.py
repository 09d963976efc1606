"""Requests to one chosen broker, and the broker's answers."""
