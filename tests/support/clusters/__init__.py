"""Real clusters on the loopback address. Each server is a separate process; a context manager starts and stops them."""
