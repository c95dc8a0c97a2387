"""What every daemon is made of: start and stop, health, jobs, cancelling."""
