"""./run soak: mixed traffic for a long time, and whether sizes, memory, buffers and latencies stay flat."""
