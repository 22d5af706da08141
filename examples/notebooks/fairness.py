# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Was the queue fair?
#
# This notebook reads an archive of the history (`lonnymq spark archive lake`) and answers three questions:
# what did each tenant get, compared with what it was entitled to? How long did its messages wait? And what
# would another limit have changed? To try it without a queue of your own, run `lonnymq demo` first.

# %%
import os

import matplotlib.pyplot as plt
from pyspark.sql.functions import collect_list

import lonnymq.spark as lonnymq_spark
from lonnymq.spark.lake.read_lake import read

lake = os.environ.get("LONNYMQ_LAKE", "lake")
spark = lonnymq_spark.session("local[2]")
history, policies, waiting = (read(spark, lake, table) for table in ("history", "policies", "waiting"))

# %% [markdown]
# ## Shares
#
# A tenant is entitled to an equal part of what was served, by weight, but to no more than it asked for and
# its own limits allow. Jain's index is 1 if all tenants that competed got the same part of what they were
# entitled to.

# %%
report = lonnymq_spark.report(spark, history, policies=policies, waiting=waiting)
report.print()
tenants = report.tenants[:12]
names = [tenant.channel for tenant in tenants]

# %%
figure, axes = plt.subplots(figsize=(8, 4))
places = range(len(tenants))
axes.bar(
    [place - 0.2 for place in places], [100 * (tenant.share or 0) for tenant in tenants], 0.4, label="share"
)
axes.bar(
    [place + 0.2 for place in places],
    [100 * (tenant.entitlement or 0) for tenant in tenants],
    0.4,
    label="entitlement",
)
axes.set_xticks(places, names, rotation=45, ha="right")
axes.set_ylabel("% of what was served")
axes.legend()
plt.show()

# %% [markdown]
# ## Waits
#
# How long messages waited from the time they were due until a consumer took them, per tenant.

# %%
first_due = "coalesce(past_runs[0].due_at, dequeue_at)"
first_taken = "coalesce(past_runs[0].dequeued_at, unix_millis(dequeued_at))"
rows = history.where("dequeued_at IS NOT NULL").selectExpr(
    "channel", f"({first_taken} - {first_due}) / 1000 AS wait_s"
)
found = rows.groupBy("channel").agg(collect_list("wait_s").alias("waits")).collect()
waits = {row.channel: sorted(row.waits) for row in found}
figure, axes = plt.subplots(figsize=(8, 4))
for name in names:
    mine = waits.get(name, [])
    axes.plot(mine, [100 * (place + 1) / len(mine) for place in range(len(mine))], label=name)
axes.set_xlabel("wait in seconds")
axes.set_ylabel("% of messages that waited no longer")
axes.legend(fontsize="small")
plt.show()

# %% [markdown]
# ## What if?
#
# The largest tenant gets at most two messages at a time. The simulation also runs the actual settings, and
# gives no answer for a tenant whose recorded waits it does not reproduce.

# %%
largest = names[0]
scenario = lonnymq_spark.Scenario(f"{largest}: two at a time", {largest: {"max_concurrency": 2}})
simulation = lonnymq_spark.simulate(spark, history, policies, [scenario], waiting=waiting)
simulation.print()

# %%
spark.stop()
