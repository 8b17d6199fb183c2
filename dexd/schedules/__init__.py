"""When schedules fire: cron text, calendars and time zones [SCHED-3..10].

The core knows instants only; here they are computed, for the engine to hand in. No IO but the tables of time zones, no
clock: every instant from which somebody looks comes as an argument.
"""
