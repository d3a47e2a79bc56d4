//go:build !e2e

package main

// reloads is how often a new configuration is taken over under load; more with the tag e2e.
const reloads = 8
