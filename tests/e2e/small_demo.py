"""Runs `lonnymq` with a smaller demo, whose noisy tenant sends fewer messages."""

import dataclasses
import functools

from lonnymq import demo
from lonnymq.cli import main

BACKLOG = 3_000
FEWER = [dataclasses.replace(tenant, backlog=min(tenant.backlog, BACKLOG)) for tenant in demo.TENANTS]

if __name__ == "__main__":
    demo.run = functools.partial(demo.run, tenants=FEWER)
    main()
