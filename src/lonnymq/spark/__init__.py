"""The queue, its history and its dead letters in Spark, and the lake."""
