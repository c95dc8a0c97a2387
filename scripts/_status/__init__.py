"""`vpm status`: one look at everything that runs, from PostgreSQL, and from /metrics where it is given.

`facts` reads, `concerns` says what an operator should look at, `view` writes it for people.
"""
