"""Protocol version 1: generated messages and stubs (`*_pb2*`, see `make proto`) and the hand-written `frames`."""
