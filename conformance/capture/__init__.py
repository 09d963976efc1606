"""What passes between a controller and its brokers, captured and read."""
