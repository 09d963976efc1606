"""The members of consumer groups under load, each a process of its own that can die as processes do."""
