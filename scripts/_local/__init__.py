"""Local processes for development and tests: an embedded PostgreSQL and anvil chains.

The functions here describe what to run (`SpawnPlan`) and wait until it answers; who owns the process spawns it, with
`start_process` or in a supervisor of its own.
"""
