"""Disks of their own for brokers: file systems in image files, which storage faults break and healing mends."""
