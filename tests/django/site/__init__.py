"""A Django project with tasks on LonnyMQ. Its tests are run by Django's own runner, in a separate process."""
