"""For the tests of programs that use LonnyMQ.

The fixtures of lonnymq.testing.plugin are there in every pytest; what is named here is to be imported.
"""
