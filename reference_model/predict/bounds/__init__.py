"""Bounds of a lane's state space that answer without exploring all of it."""
