"""The model's stories: read back as actions, and written as scenarios that brokers play."""
