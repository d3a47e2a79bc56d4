// Package catalog describes outbox tables as the server has them: their columns, which column makes which part of a message, and how values
// become text. It reads messages out of a table with SQL, and makes of a row exactly what the log makes of it.
package catalog
