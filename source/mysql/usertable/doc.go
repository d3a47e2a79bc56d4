// Package usertable finds and changes the user's rows in outbox tables: which statements pick rows by their ids, which values columns can hold, and
// which rows are pending. What it writes, package store decides.
package usertable
