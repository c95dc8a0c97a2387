"""The keeper: scheduled jobs that list, settle and pay. Each job reads, decides with pure functions, and submits
transaction requests to the outbox. Jobs hold no keys, and anyone could make the same contract calls.

- `jobs`: the list of jobs, their chains and periods; `service` runs them while this process is the leader.
- `stock`, `agent`, `cup`: the jobs of each side and their pure decisions.
- `payouts`, `settling`: what stock and agent jobs share for paying and for ending markets.
- `run`, `attempts`: what a job can read, and how it submits requests, one attempt at a time for each subject.
- `sources`: where observations come from.
"""
