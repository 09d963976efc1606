"""What a report shows of a run: read from its files, and condensed."""
