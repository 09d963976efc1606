"""Listeners: what others want to be told of a run, from its events alone."""
