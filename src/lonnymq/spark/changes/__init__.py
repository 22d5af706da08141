"""History and dead letters as tables and streams.

Every row carries the transaction that wrote it, so positions are PostgreSQL snapshots.

- `history_source` and `dead_source` are the two formats, `change_source` is what they share: the readers
- `range_reader` finds, splits and reads the rows between two positions
- `change_view` is the view that is read, with the queries on it
- `snapshots` and `offsets` are the positions, `filters` the conditions that PostgreSQL evaluates for Spark
"""
