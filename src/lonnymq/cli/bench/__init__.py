"""`lonnymq bench`: measures a database, with a temporary queue in a schema of its own."""
