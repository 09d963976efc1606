"""The model against real brokers: both play the same scenarios, and are compared after every step."""
