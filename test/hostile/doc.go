// Package hostile makes rows that an application should not write: texts at and above their bounds, hostile headers, characters and payloads,
// and many types, topics and groups.
//
// [Rows] makes the rows of one round from a seed. It needs no database, and says of each row whether it has to become a dead letter.
// No test writes these rows to a database yet.
package hostile
