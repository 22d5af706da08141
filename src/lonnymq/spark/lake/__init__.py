"""The archive of history and dead letters in a lake.

- `archive` has `archive()`: it copies new rows into the lake, each row once
- `delta_table` reads and writes the Delta tables, with the position in each commit
"""
