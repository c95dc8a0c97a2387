"""The bodies of responses, by subject, and the pure functions that build them from facts."""
