"""Scenarios on transactions: producers that send one request at a time, in lock step with the model of transactions."""
