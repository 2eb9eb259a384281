"""The worker process (claims jobs, stores results) and the runner process (runs one experiment)."""
