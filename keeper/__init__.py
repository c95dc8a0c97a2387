"""The keeper: scheduled jobs that list markets, settle them and pay winners. Each job reads, decides with pure
functions, and submits transaction requests to the outbox. Jobs hold no keys, and anyone could make the same contract
calls.

- `jobs`: the list of jobs, their chains and periods; `service` runs them while this process is the leader.
- `stock`, `agent`, `cup`: the jobs of each side and their pure decisions.
- `payouts`, `settling`: the code that stock and agent jobs share to pay owners and to end markets.
- `run`, `attempts`: what a job can read, and how it submits requests, one attempt at a time for each subject.
- `sources`: the sources of observations.
"""
