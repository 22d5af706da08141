"""./run chaos: real clients and a real server under faults, judged by what the clients wrote down.

options         the options of the command
world           the channels of a run, their policies, and what a message's content says
plan            the schedule of faults, made from a seed
journal         the files in which each process notes every call before and after it
client          a connection that reconnects, and a call that is noted
producer, consumer, task_worker, spark_sink, spark_stream
                the programs of the clients, each in processes of its own
proxy           the TCP proxy between clients and server, a process of its own
cluster         the server, its standby, and where they keep their files
crew            starts, kills and replaces the processes of the clients
faults/         what can go wrong, by family
evidence        the journals as tables
case            the messages and leases of the evidence, as the rules look at them
judge, rules/   verdicts from the evidence; pure
tally           what was created and delivered so far, for the progress
report          one page: timeline, verdicts, counts
run             one run, from the first process to the report
broken_engines  engines with a known defect, which the judge must refute
"""
