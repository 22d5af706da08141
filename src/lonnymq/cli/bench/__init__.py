"""Measuring a database, with a queue of its own that is removed afterwards."""
