"""Starting Spark.

- `spark_session` has `session()`: the running session of this process, or a new one
- `launch` has the settings and the environment that a new session starts with
- `java` finds a Java that Spark runs on
- `ship_package` sends this package to executors that do not have it
"""
