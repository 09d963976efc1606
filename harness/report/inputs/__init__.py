"""The data of a report: read from a run's files, and condensed."""
