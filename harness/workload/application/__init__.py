"""A user's application in place of the harness's clients: the handles that it gets, and clients that record it."""
