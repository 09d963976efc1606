"""The input of verification: run directories on any file system."""
