#!/bin/sh
# Creates the namespace that tasks live in, unless it exists. The retention is as long as sessions live without use.
set -eu
until temporal operator cluster health; do sleep 1; done
temporal operator namespace describe --namespace "$NAMESPACE" >/dev/null 2>&1 ||
    temporal operator namespace create --namespace "$NAMESPACE" --retention "$RETENTION"
