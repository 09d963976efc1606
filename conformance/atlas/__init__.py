"""The atlas: clients, clusters, settings and faults, each combination tried again and again, and one record of it."""
