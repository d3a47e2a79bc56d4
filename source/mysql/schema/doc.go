// Package schema makes tables: tailbox's own, by numbered migrations, and outbox tables of the shapes that tailbox can make. It also refuses
// tables of tailbox that are older or newer than the program.
package schema
