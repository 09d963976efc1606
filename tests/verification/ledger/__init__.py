"""No verdict without its evidence: what is missing, hidden, doubled or contradictory never conforms."""
