// Package stream reads messages from the binlog: it finds the position to begin at, decodes the rows of configured tables, in bounded memory
// whatever the size of a transaction, and emits them with the positions at which reading can go on.
package stream
