// Package verbs are the commands by which operators look at parked deliveries and groups that wait, and decide about them.
package verbs
