"""LonnyMQ: a multi-tenant message queue inside PostgreSQL."""

__version__ = "0.1.0"

__all__ = ["__version__"]
