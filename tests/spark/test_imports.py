"""What the processes import that Spark starts for every stream, query and write."""

import subprocess
import sys

STEPS = """
import sys
import pyspark_lonnymq
print(*{"lonnymq.commands", "psycopg", "pyarrow.compute"} & set(sys.modules))
import pyspark_lonnymq_history
import lonnymq.spark.consume.claim_reader
print(*{"adbc_driver_manager", "lonnymq.install", "pgpq", "pyarrow.compute", "pyarrow.fs"} & set(sys.modules))
"""


def test_only_what_they_need() -> None:
    """First for finding the format, then for planning and reading as a stream."""
    done = subprocess.run([sys.executable, "-c", STEPS], capture_output=True, text=True, check=True)
    assert done.stdout == "\n\n"
