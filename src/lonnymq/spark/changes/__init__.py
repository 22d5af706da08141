"""History, dead letters and policies as tables and streams.

Every row carries the transaction that wrote it, so positions are PostgreSQL snapshots.

- `history_source`, `dead_source` and `policy_source` are the formats, `change_source` is the part that they
  share: `read_options`, `batch_reader` and `stream_reader`
- `range_reader` finds, splits and reads the rows between two positions
- `change_view` is the view that is read, with the queries on it
- `snapshots` and `offsets` are the positions, `filters` the conditions that PostgreSQL evaluates for Spark
"""
