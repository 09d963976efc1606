"""The stories that `predict` tells of lanes: read back as the model's actions, and which claims they belong to."""
