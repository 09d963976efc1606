"""Turns histories of other tools into run directories for `kafka-chaos verify`."""
