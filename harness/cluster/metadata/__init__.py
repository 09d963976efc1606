"""Where a cluster keeps its metadata: ZooKeeper or KRaft, behind the Protocols in `protocol.py`."""
