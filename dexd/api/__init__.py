"""The edge: gRPC bytes to commands, outcomes to gRPC bytes, and not one rule in between [ARCH-12].

Imports the engine and the codec, never a rule of `dexd.core`; `status` is the one place that knows gRPC status codes.
"""
