"""The load: producers, consumers, a user's application, and the history that they record."""
