"""Local processes for development and tests: an embedded PostgreSQL and anvil chains. The functions describe a program
as a `SpawnPlan` and wait until the program responds. The caller starts it with `start_process` or a supervisor."""
