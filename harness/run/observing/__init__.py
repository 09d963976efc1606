"""What is seen of a cluster and of faults while a run goes on, and what is collected after it, as events."""
