"""The history on disk: rows while the load runs, what was about to be sent, and what a killed harness left to add."""
