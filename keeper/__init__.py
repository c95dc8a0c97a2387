"""The keeper: scheduled jobs that list, settle and pay, each a read, a pure decision, and a request to the outbox.

Everything it does anyone may do with the public contract calls; it only sees to it that somebody does. No job holds a
key, and every job may be run by hand: `python -m keeper run-once resolve --dry-run`.

- `schedule`: which jobs there are, for which chain, and how often; `service` runs them while this process leads.
- `stock`, `agent`: per side, the pure decisions (`sessions`, `opening`, `settling`, `delivering`; `series`, `listing`,
  `settling`, `paying`) and the jobs that read for them and ask (`*_job`).
- `sources`: where observations come from.
- `errands`: one attempt at a time for each subject, whoever else runs.
"""
