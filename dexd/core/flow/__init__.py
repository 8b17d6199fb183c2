"""The Flow model: folded state of one run, the deciders that propose its events, and the fold itself.

Deciders (`decide_*`) read one `RunState` and return events or a `Rejection`; they never change it. `evolve` applies one
event and never refuses. The kernel alternates the two, so later deciders see what earlier events did [ARCH-2].
"""
