// Package compat compares tailbox's router with Debezium's own outbox event router, which runs in a JVM: the same rows and
// options, and topic, key, headers, partition, timestamp and value byte for byte, apart from a list of differences
// that are meant.
package compat
