"""Packets that wait: queues of the kernel's packet filter, served by a process."""
