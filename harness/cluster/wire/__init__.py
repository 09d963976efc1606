"""The controller's requests to brokers, ZooKeeper mode's own, which no kept library carries: codec and client."""
