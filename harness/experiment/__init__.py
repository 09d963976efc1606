"""Experiments as YAML: their keys, their checks, and schedules drawn from a seed."""
