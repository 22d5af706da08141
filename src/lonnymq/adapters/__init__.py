"""One adapter per driver. It runs a command on the caller's connection, session, pool or engine, and never
commits, rolls back or changes a setting of the caller's transaction.
"""
