"""Listeners that show a run on the terminal and in CI systems, from its events alone."""
