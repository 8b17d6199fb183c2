"""Who runs what: sessions and their streams, open calls, and how they find each other.

All of it is derived state: open calls come from Flow state, idle streams from live sessions; after recovery both are
built again. Nothing in here decides about a Flow.
"""
