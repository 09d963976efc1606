"""A broker's own files, read from its container: segments, checkpoints, and a replica put together from them."""
