"""A scenario's record in words, and its story on a terminal."""
