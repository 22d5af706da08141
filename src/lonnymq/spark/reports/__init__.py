"""Reports on how each tenant was served."""
