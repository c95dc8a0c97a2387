"""Code of all daemons: start and stop, health, requested jobs, cancellation."""
