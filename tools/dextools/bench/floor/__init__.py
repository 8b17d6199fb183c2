"""The floor: what parts of the way cost on this machine when nothing else is done.

``append`` commits the rows of the bare pipeline in groups and does nothing else, ``echo`` sends empty frames there and
back as often as a Flow's messages travel, ``encode`` builds and encodes the same rows without storing them.
"""
