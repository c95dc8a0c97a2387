"""PostgreSQL: schema and migrations, engines and pools, leader election, signals.

To add tables (each area has its own file):

1. Declare them in `core/db/schema/<area>.py` with `core.db.schema.table` and the column types of `core.db.types`.
2. Until the first release, `python -m core.db.migrations.tables` writes them into the baseline. The files
   `core/db/migrations/baseline/2_*.sql` are edited by hand and hold only functions and triggers.
3. After the first release, write a migration `core/db/migrations/versions/<area>_<nnnn>_<what>.py` with
   `revision = "<area>_<nnnn>"`. The first migration of an area has `down_revision = None`,
   `branch_labels = ("<area>",)` and `depends_on = "core_0001"` (or the revision of another area whose tables it
   references). Later migrations name their predecessor in `down_revision`.
4. `python -m core.db.migrate` applies the missing migrations.

Hashes, addresses and other bytes are `bytea` (`Hash32`, `Address`); uint256 is `numeric(78,0)` (`Uint256`); chain times
are bigint Unix seconds; times of our own clock are `timestamptz` (`UtcDateTime`). Constraints enforce the invariants.

Migrations run while older code still serves. Therefore add first, then backfill, and drop only in a release after the
last one that reads the old columns.
"""
