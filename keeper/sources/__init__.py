"""The sources of observations, and the checks before one is posted.

A source returns a sample or raises `SampleRefused`; `sample.agree` combines the samples of all sources of a feed. When
in doubt, refuse: without a round a market is void and every stake is refunded, but a wrong round decides the market
wrongly.
"""
