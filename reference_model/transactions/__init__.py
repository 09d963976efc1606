"""The model of transactions: producers, coordinator, markers and readers, and what may go wrong between them."""
