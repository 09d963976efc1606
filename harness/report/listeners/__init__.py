"""Listeners: what the terminal and CI systems show of a run, from its events alone."""
