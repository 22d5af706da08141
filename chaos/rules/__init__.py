"""The rules, by topic. Each is a function of a case and returns a verdict."""
