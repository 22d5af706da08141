"""Writing a DataFrame's rows into channels."""
