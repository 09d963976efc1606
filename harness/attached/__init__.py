"""Externally managed clusters, and how to break them: by the commands that a file names for each of their nodes."""
