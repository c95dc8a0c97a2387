"""Local processes for development and tests: an embedded PostgreSQL and anvil chains. The functions describe a program
(`SpawnPlan`) and wait until it responds; the caller starts it with `start_process` or a supervisor."""
