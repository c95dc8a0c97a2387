"""Answers of the agent surface, by what they are about, as the documentation describes them. Bodies may carry more keys
than these.

Nothing makes one of these: `api/agent/render/` and its neighbours build each answer as a dictionary. Tests hold the two
together: they read answers by these models (`tests/integration/test_agent_reads.py`, `test_agent_answers.py`), and hold
what generated calls are answered to the schema that is made of them (`test_agent_fuzz.py`). Decision 14 says why.
"""
