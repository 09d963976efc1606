"""The layout of a cluster and the configuration of its servers; nothing starts before it is checked."""
