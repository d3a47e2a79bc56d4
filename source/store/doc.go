// Package store is what the stores share, whatever their database is: the columns of tailbox_parked (ParkedRow) and the texts in
// other columns, what a settlement decides about deliveries, lanes and rows (Attempt, R5, R7), what is due or pending (Due, ListPending), how
// requests are carried out (R13), and how sweeps number rows (R8). It knows no driver and makes no
// statement: each database supplies those (ParkedReader, PendingReader, Requests, Effects).
//
// Its subpackages hold the rest of what the stores share: feedback to business rows, reports, what check finds, migrations, and what the commands
// ask of a database.
package store
