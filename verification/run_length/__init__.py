"""The prefilter by run-length encoding: consecutive identities at consecutive offsets as one row."""
