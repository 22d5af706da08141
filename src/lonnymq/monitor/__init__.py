"""The numbers about tenants: who is served how much, who waits, who is noisy. `lonnymq top` shows them, and a
worker exports them as metrics.
"""
