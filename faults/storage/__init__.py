"""Fault kinds that break disks."""
