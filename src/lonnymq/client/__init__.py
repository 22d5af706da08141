"""The queue as people use it: synchronous and asynchronous, each call described once for both."""
