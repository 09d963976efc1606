"""Nightly runs: repeats experiments, counts with intervals, and shows the trend."""
