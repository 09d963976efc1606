"""Random walks of the model, replayed in lock step on real brokers."""

STEPS = 12
"""Steps of a walk."""
BESIDE = 6
"""Walks in a group, which share a cluster and its faults."""
