"""The database side: each step reads and writes in one transaction that checks the cursor's old value."""
