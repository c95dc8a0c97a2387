"""Where observations come from, and what makes one fit to be posted.

A source gives a sample or raises `SampleRefused`. Every source of a feed is asked; `sample.agree` makes one value of
what they say, or refuses. Refusing is always the right answer to doubt: a feed without a round voids a market and gives
every stake back, a wrong round decides it.
"""
