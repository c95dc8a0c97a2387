"""`vpm study`: what bettors, the venue and attackers can expect, measured over the mirrors of the contracts.

`world` draws markets, `mechanisms` plays them, `roles` are those who know or do more than the crowd, `returns` and the
modules beside it measure, `page` writes docs/fairness.md from what was measured, and `plots` draws it.
"""
