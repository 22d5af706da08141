"""Writing the rows of a DataFrame into channels.

- `writer` is what Spark calls, on the driver and on executors
- `staging` is the executors' side: it copies rows into the table `staging_chunk`
- `chunks` puts many rows into one row of that table
- `publish` is the driver's side: it turns all staged rows into messages, in one transaction
- `publication` tells the caller what was published
- `message_columns` checks columns and rows, and converts them to the columns of messages
- `headers` and `json_values` convert values to JSON; `text_check` finds texts that are not UTF-8
- `row_batch` names the row in an error
"""
