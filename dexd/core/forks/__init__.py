"""Time travel: a new run of an execution that goes on from an earlier point of it [TT-1..6].

1. The shell looks for the point in the log (`search`), off the event loop.
2. It folds the run up to there and makes the state fit for another life (`plan`), and reads which external writes came
   later (`external_writes`).
3. The kernel ends the old run, begins the new one and applies the writes again, in one outcome (`time_travels`,
   `decide_fork`, `reapplication`); it refuses a plan that the Flow has outrun.
"""
