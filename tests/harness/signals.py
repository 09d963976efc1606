"""Starting a process to which signals are sent."""

NOT_IGNORING = ("env", "--default-signal=INT,TERM,HUP")
"""Put before a command: what is started in a shell's background ignores SIGINT, and so does all that it starts."""
