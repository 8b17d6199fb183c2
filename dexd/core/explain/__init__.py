"""Why a Flow does not get on: a pure look at one run's state and at matching, which nothing is decided by [HIST-6]."""
