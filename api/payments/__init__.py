"""The payment pipeline that the stock relay and the agent trade share.

An authorization is what a payer signed, a bet what it pays for, an attempt one intent to bring the bet to the chain,
and an outcome the result: pending, landed, refused or unknown. An attempt is stored before anything is sent, an
authorization pays for one bet, and unknown is never treated as failed.
"""
