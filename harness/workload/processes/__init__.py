"""Clients as processes of their own: who looks after them, and who records what they say."""
