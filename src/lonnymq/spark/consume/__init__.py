"""A stream that consumes messages, in numbered claims."""
