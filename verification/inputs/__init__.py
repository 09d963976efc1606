"""The input of verification: run directories on any file system, and the final log of a live cluster."""
