"""What controllers in ZooKeeper mode tell brokers: seen, made up, and refused."""
