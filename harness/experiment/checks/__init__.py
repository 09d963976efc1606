"""Checks of an experiment before anything starts: across its keys, and of where its run is to be."""
