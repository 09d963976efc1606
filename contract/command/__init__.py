"""What the commands of all packages share: how they end, their errors, progress and waits, and the files they write."""
