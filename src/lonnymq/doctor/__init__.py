"""Checks of a queue and its database: what is wrong, and what to do about it. They only read.

`lonnymq doctor` shows what they find.
"""
