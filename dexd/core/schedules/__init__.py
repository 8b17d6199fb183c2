"""Schedules: what is planned, what became of every fire, and what a schedule owes its executions [SCHED-1..16].

A schedule is a stream of its own [ARCH-14]. When it fires next is computed outside the core and comes in with commands;
here is decided what a fire leads to. All of it is pure, as everything in `dexd.core`.
"""
