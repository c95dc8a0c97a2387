"""The keeper: scheduled jobs that list, settle and pay, each a read, a pure decision, and a request to the outbox.

Everything it does anyone may do with the public contract calls; it only sees to it that it is done. No job holds a
key, and every job may be run by hand: `python -m keeper run-once resolve --dry-run`.

- `jobs`: which jobs there are, for which chain, and how often; `service` runs them while this process leads.
- `stock`, `agent`, `cup`: the jobs of each side, with the pure decisions that they rest on.
- `payouts`, `settling`: what the jobs of both sides share when they pay and when they end a market; `settling` also
  asks other nodes before money is given back.
- `run`, `attempts`: what a job reads, twice where money is given back on it, and how it asks: one attempt at a time
  for each subject, whichever keeper runs.
- `sources`: where observations come from.
"""
