"""What a cluster consists of, and what its servers are configured with; nothing starts before it is checked."""
