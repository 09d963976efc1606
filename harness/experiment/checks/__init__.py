"""Checks of an experiment before anything starts: conflicts between its keys, and room for its run directory."""
