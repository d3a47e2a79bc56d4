// Package oplog knows the log of a replica set: the times by which it is ordered, the places at which reading it begins, and how far
// it reaches back.
package oplog
