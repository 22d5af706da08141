"""A pytest plugin: Celery's tests read the URLs of the broker and the results from the environment."""

import os

URL = f"lonnymq+{os.environ['LONNYMQ_SUITE_DSN']}"
os.environ["TEST_BROKER"] = os.environ["TEST_BACKEND"] = URL
