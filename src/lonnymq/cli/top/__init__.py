"""`lonnymq top`: polls the queue, computes rates and fair shares, and draws the screen."""
