"""What client libraries do beyond what the KIPs say of any client."""
