"""Clusters in containers, load, experiments, runs, reports, campaigns, the pytest plugin and the command line."""
