"""Scenarios with a consumer group: its members, and their steps."""
