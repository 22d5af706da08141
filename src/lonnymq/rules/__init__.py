"""The rules of the queue in plain Python: what a limit allows, whose turn it is, what a channel is owed.

The engine follows them in SQL. The simulation, the report, `lonnymq top`, the dashboard and the model in the
tests use these, so that each rule is written once.
"""
