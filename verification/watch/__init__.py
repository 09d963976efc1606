"""Incremental verification of an unfinished run."""
