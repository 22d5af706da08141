"""The archive of history and dead letters in a lake.

- `archive` has `archive()`: it copies new rows into the lake, each row once
- `read_lake` has `read()`: the rows of a table, or those of some days
- `lake_table` says what a table offers; `delta_table` offers it for Delta, with the position in each commit
- `parquet_files` writes the files of a table
"""
