"""Consumer groups and loops as rules: members, coordinator, commits, and what may go wrong between them."""
