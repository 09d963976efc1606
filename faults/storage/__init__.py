"""Kinds that break disks."""
