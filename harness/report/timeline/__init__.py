"""The events of a run and its lanes over time, and pictures of them."""
