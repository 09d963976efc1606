"""What verification reads: run directories on any file system, and the final log of a live cluster."""
