"""Whether a client speaks the client protocol: the conformance kit, played to it on a real cluster."""
