"""Controllers: how they are replaced, how they elect leaders, and what they send."""
