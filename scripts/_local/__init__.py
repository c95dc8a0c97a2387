"""Local processes for development and tests: an embedded PostgreSQL and anvil chains.

The functions here describe what to run (`SpawnPlan`) and wait until it answers; the owner of the process spawns it,
with `start_process` or in its own supervisor.
"""
