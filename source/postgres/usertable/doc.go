// Package usertable resolves a configured outbox table for statements on its rows: how its ids are compared, which columns the relay writes, and by
// which condition a row is pending. It refuses tables with which the relay cannot work.
package usertable
