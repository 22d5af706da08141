"""The stream that consumes messages: `readStream.format("lonnymq").option("consumer", name)`.

- `claim_reader` is what Spark calls, on the driver and on executors
- `claim_options` checks the options
- `commit_log` tells which batches are done
- `stream_consumer` is the driver's side: it claims and completes messages, and extends their leases
"""
