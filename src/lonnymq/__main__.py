"""`python -m lonnymq` is `lonnymq`."""

from lonnymq.cli import main

main()
