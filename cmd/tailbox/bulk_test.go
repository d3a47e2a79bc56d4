//go:build !e2e

package main

// bulkGroups is how many groups a bulk replay is about; ten times as many with the tag e2e.
const bulkGroups = 1_000
