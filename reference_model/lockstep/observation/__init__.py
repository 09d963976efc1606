"""Observations of brokers, groups and transactions between two steps, and their differences from the model."""
