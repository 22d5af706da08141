"""What would have happened with other limits: the dispatcher and its consumers, simulated event by event.

- `runs`: what is simulated, the attempts of a history
- `scenario`: what is changed; `consumers`: who serves, and how fast
- `events`: the simulation
- `waits`: how long messages waited, as histograms that can be added up
- `calibrate`: finds the consumers from a history; `errors`: how far a simulation is from what was recorded

It is plain Python, and uses the rules of `lonnymq.rules`. `lonnymq.spark.simulation` runs it on a history of
any size.
"""
