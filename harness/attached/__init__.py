"""Clusters that somebody else manages: a file names the commands that break and heal each of their nodes."""
