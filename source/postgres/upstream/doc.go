// Package upstream knows the server whose log is read: how checkpoints name it, its replication slot, and the standbys that it waits for.
package upstream
