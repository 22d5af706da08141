"""Lets `python -m lonnymq` run the command line."""

from lonnymq.cli import main

main()
