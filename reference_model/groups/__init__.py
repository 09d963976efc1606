"""The model of consumer groups and loops: members, coordinator and commits, and what may go wrong between them."""
