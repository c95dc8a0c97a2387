"""Answers of the agent surface, by subject: structs and the functions that build them from facts. The API sends the
structs, pages read them and the documentation describes them. The functions are pure; amounts are exact JSON
numbers."""
