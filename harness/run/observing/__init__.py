"""Observes a cluster and its faults during a run and collects logs after it; what they show becomes events."""
