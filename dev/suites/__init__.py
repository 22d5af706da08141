"""Runs test suites that others wrote against our integrations: `./run suites`.

Each folder of suites/ describes one suite: its source package with version and hash, what it needs, how to
run it, and which of its tests do not apply to us, with the reason.
"""
