"""Scenarios with a share group: its members, and their steps."""
