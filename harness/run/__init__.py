"""A run from plan to verdict: phases, faults, collection. Also runs on an attached cluster."""
