"""The archive of history and dead letters in a lake.

- `archive` has `archive()`: it copies new rows into the lake, each row once
- `read_lake` has `read()`: the rows of a table, or those of some days
- `maintain_lake` has `optimize()` and `expire()`: fewer and larger files, and no rows that are too old
- `find_lake` opens a lake in its format; `lake_table` says what a lake and a table offer; `delta_table` and
  `iceberg_table` offer it, with the position in each commit
- `identity` names a table, wherever it is; `parquet_files` writes the files of a table
"""
