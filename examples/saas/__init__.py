"""A small SaaS backend: tenants upload documents, and a worker counts their words, fairly between tenants."""
