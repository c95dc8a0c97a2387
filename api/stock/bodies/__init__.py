"""The bodies of the stock surface, by endpoint. Requests are validated by these models; answers are documented by them,
and the tests hold every answer to them, field by field."""
