"""What runs the statements: an engine behind a small protocol."""
