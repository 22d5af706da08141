"""One a driver: runs a command on what the caller holds; never commits, rolls back or changes a setting."""
