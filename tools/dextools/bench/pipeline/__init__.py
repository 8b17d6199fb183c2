"""The bare pipeline: what the product would cost without any of its rules.

Server, worker and client are three processes that speak the product's services and envelopes. The server turns every
message into the rows that the product would write, commits them in groups with fsync, and only then sends the
assignments and replies that follow from them. It checks nothing and decides nothing: its figures are the ceiling of
this design on this machine, and the product is reported as a share of them.
"""
