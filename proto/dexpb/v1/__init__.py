"""Version 1 of the protocol: generated messages and stubs (`*_pb2*`, see `make proto`) and the hand-written `frames`."""
