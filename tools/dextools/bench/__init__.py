"""The benchmark: workloads of docs/performance.md, measured together with their floor on the same machine.

Every figure of the product stands beside the *bare pipeline* of the same run: three processes that exchange the same
frames and commit the same rows as often as the product does, without any rule. ``python -m dextools.bench A B F``
prints one JSON line per system and workload, ``python -m dextools.bench.compare OLD NEW`` the ratios of two results.

``workloads`` says what is measured, ``suite`` in which order, ``systems`` which processes take part, ``stage`` runs
them once, ``load`` drives a client, ``measurement`` and ``rows`` hold the figures. The product imports nothing of this.
"""
