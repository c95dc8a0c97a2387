"""A simulator of the service in virtual time: see docs/simulator.md."""
