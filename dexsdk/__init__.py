"""The SDK of dexd."""
