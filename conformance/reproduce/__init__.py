"""Plays the stories of the model on real brokers, step by step."""
