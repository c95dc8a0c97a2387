"""The sources of observations, and the checks before one is posted.

A source returns a sample or raises `SampleRefused`. All sources of a feed are read; `sample.agree` combines their
samples into one value, or refuses. When in doubt, refuse: without a round a market is void and every stake is refunded,
but a wrong round decides the market wrongly.
"""
