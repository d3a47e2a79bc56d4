//go:build e2e

package main

// reloads is how often the configuration is read again under load.
const reloads = 100
