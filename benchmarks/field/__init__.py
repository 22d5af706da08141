"""./run bench field: LonnyMQ beside other queues, each with its own worker and recommended settings."""
