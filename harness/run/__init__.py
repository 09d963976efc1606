"""A run from plan to verdict: phases, faults, collection. The cluster may be an attached one, which others own."""
