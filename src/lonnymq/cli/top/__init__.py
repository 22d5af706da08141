"""What `lonnymq top` shows: what is read of the queue, what is made of it, and the screen with its keys."""
