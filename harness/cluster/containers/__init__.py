"""The Docker engine, images, networks, ports, labels, and the clean-up by label."""
