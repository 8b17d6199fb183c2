"""What operators see of the running server beside its API."""
