#!/bin/sh
# Creates or updates the two databases of Temporal. It can be repeated at any time.
set -eu
SQL_PASSWORD=$(cat /run/secrets/postgres_password)
export SQL_PASSWORD

tool() {
    temporal-sql-tool --plugin postgres12 --ep "$POSTGRES_HOST" -u "$POSTGRES_USER" -p 5432 --db "$database" "$@"
}

for database in temporal temporal_visibility; do
    versions=/etc/temporal/schema/postgresql/v12/${database#temporal_}/versioned
    if ! tool update-schema -d "$versions"; then
        tool create
        tool setup-schema -v 0.0
        tool update-schema -d "$versions"
    fi
done
