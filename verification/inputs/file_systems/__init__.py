"""Where run directories live: a local folder, or Hadoop's file systems, by the JVM's objects or by PyArrow."""
