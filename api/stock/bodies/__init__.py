"""The bodies of the stock surface, by endpoint: every answer is one of these, and is described by it."""
