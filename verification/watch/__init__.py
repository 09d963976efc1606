"""Incremental verification of a run that is still going on."""
