//go:build !e2e

package main

// reloads is how often the configuration is read again under load; more with the tag e2e.
const reloads = 15
