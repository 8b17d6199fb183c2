"""A server inside a test: the real engine, rules and codec over a log in memory, on a clock that its owner turns.

The SDK's test environment finds it through the entry point `dexsdk.test_server` [TEST-1]; nothing here knows the SDK.
"""
