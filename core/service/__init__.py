"""Code shared by all daemons: start and stop, health, requested jobs, cancellation."""
