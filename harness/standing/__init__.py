"""Clusters that stay until `cluster down`: a process keeps each, and does what commands ask it by a socket."""
