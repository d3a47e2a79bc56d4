//go:build e2e

package main

// reloads is how often a new configuration is taken over under load.
const reloads = 100
