// Package poll reads an outbox table in the order of its sequence column, for databases whose log cannot be read: what the
// kinds share of it. A kind knows how to ask its server (Session); this package knows what may be delivered when.
//
// Numbers are drawn before transactions commit, so a row can appear below one that was seen before. A gap among the numbers
// is therefore waited for, until every transaction that may have drawn one of them has ended: then they are there, or
// will never be. Nothing is decided by time.
//
// A Position is {log, number, 0}, and a Resume is a number as text: everything up to it was delivered, or will never appear. If the
// server tells, it names the series of that number, too, so that numbers which begin anew and overtake it are not taken for those after it.
// A number that does appear below it all the same (it was written by hand, or drawn outside of the transaction that uses it) is
// found by the comparison of the table with what was read (R11), and is delivered late, never skipped.
package poll
