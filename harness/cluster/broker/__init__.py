"""Requests to one chosen broker, and what it answers."""
