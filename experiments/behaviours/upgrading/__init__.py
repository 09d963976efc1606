"""From one version to another, and from ZooKeeper to KRaft, under load."""
