"""The anomalies of a run, found and counted."""
