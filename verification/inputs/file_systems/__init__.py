"""Where run directories live: a local folder, or Hadoop's file systems, by Java's objects or by Spark's readers."""
