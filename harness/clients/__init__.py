"""The kinds of clients: which libraries there are, in which versions, and how each is fetched and started."""
