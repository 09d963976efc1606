"""Lanes over time: what the events show, and the pictures of it."""
