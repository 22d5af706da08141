"""What other limits would have done, simulated from the history.

- `run` has `simulate()`: it calibrates, and runs scenarios and windows of time in parallel
- `history_runs` makes the attempts from rows of the history; `windows` cuts time where nothing waits;
  `parts` are a scenario in some windows
- `result` is what it returns; `terminal` prints it, and `page` writes it as one HTML page, with `plots`

The simulation itself is `lonnymq.simulation`.
"""
