// Package columns turns rows into messages, for all databases with tables: a Plan says which column makes which part of a message,
// and a Decoder fills a message from a row. How a value of a type is read is each database's own (Column). If no message can be made of a
// row, the package says why, in the same words for all.
package columns
