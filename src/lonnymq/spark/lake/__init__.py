"""Delta tables in the lake, and the archive that fills them."""
