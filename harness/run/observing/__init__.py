"""Observations of a cluster and of faults during a run, and the collection after it, as events."""
