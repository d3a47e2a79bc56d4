//go:build e2e

package main

// bulkGroups is how many groups a bulk replay is about.
const bulkGroups = 10_000
