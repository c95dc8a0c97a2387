"""Answers of the agent surface, by what they are about: each is a struct and the function that fills it from facts. The
struct is what goes out, what pages read and what the documentation describes. Pure: money is exact JSON numbers."""
