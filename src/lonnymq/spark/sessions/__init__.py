"""Starting Spark: the session, its Java, and this package on the executors."""
