"""A run from plan to verdict: phases, faults, collection. Also runs that only load an attached cluster."""
