"""A run from plan to verdict: phases, faults, collection; or a load on a cluster that is attached."""
