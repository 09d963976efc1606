"""The load: producers, consumers and the user's application, and the history that they record."""
