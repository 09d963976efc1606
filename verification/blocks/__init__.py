"""The prefilter by blocks of identities, for histories that do not compress to runs."""
