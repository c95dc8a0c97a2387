"""What the stock relay and the agents' trade have in common, each step of it once.

An authorization is what a payer signed, a bet what it is for, an attempt one intent to bring it to the chain, and an
outcome what became of that: pending, landed, refused or unknown. An attempt is stored before anything is sent, an
authorization serves one bet, and unknown is never failed.
"""
