"""Answers of the agent surface, by subject: structs and the functions that build them from facts. The API sends them,
pages read them and the documentation describes them. Pure; amounts are exact JSON numbers."""
