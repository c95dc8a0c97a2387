#!/bin/sh
# Dump the whole database into a folder and keep the newest KEEP complete dumps.
#   backup.sh FOLDER     the database by DATABASE_URL_FILE, or by libpq's own PG* variables
# A nightly dump can lose a day of the cup. docs/operate.md, "Backup and restore", has the alternatives.
set -eu
umask 077
folder=$1
made="$folder/vpm-$(date -u +%Y-%m-%dT%H%M%SZ).dump"
if [ -n "${DATABASE_URL_FILE:-}" ]; then
    url=$(cat "$DATABASE_URL_FILE")
fi
pg_dump --format=custom --no-password --file="$made.unfinished" ${url:+--dbname="$url"}
mv "$made.unfinished" "$made"
rm -f "$folder"/vpm-*.dump.unfinished
ls -1 "$folder"/vpm-*.dump | sort -r | tail -n +$((${KEEP:-14} + 1)) | while read -r old; do rm -f "$old"; done
echo "wrote $made"
