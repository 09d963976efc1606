"""Plays a story on brokers: how they are made to take each step, and what they leave."""
