"""Scenarios: the same steps on the model and on real brokers, compared after every step."""
