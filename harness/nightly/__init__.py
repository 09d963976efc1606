"""Experiments repeated every night: counts with intervals, and their trend."""
