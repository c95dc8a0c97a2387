"""The keeper: scheduled jobs that list, settle and pay. Each job reads, decides with pure functions, and submits
transaction requests to the outbox.

Anyone could make the same public contract calls; the keeper makes sure that someone does. Jobs hold no keys, and each
can be run by hand: `python -m keeper run-once resolve --dry-run`.

- `jobs`: the list of jobs, their chains and periods; `service` runs them while this process is the leader.
- `stock`, `agent`, `cup`: the jobs of each side and their pure decisions.
- `payouts`, `settling`: code that stock and agent jobs share for paying and for ending markets; `settling` also checks
  with other nodes before money is refunded.
- `run`, `attempts`: what a job can read, and how it submits requests: one attempt at a time for each subject, however
  many keepers run.
- `sources`: where observations come from.
"""
