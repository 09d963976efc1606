"""The command `kafka-chaos` and the subcommands that belong to no other package."""
