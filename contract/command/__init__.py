"""How a command ends, what it says meanwhile, and the files that it writes: for the commands of all packages."""
