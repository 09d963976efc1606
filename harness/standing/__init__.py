"""Clusters that stand until `cluster down`. A process keeps each of them, and does what commands ask over a socket."""
