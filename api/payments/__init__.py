"""The payment pipeline shared by the stock relay and agent trades.

A payer signs an authorization, which pays for a bet. An attempt is one intent to put the bet on the chain; its outcome
is pending, landed, refused or unknown. An attempt is stored before anything is sent, an authorization pays for only one
bet, and an unknown outcome is never treated as a failure.
"""
