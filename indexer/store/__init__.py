"""The database side: what a step reads and writes, always in one transaction guarded by the cursor's old value."""
