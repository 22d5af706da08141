"""History and dead letters as tables and streams: rows that carry the transaction that wrote them."""
