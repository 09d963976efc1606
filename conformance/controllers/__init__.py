"""Requests of controllers in ZooKeeper mode: captured, built, and refused."""
