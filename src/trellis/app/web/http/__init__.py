"""HTTP: requests with limits, checks of the caller, batches of work, and the server."""
