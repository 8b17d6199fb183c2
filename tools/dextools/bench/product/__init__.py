"""The product under load: its server, a worker and a client as separate processes, through the public SDK only."""
