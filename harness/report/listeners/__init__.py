"""Listeners: show a run on the terminal and in CI systems, by its events alone."""
