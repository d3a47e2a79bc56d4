// Package store is what the stores share, whatever their database is: the texts that stand in columns of tailbox_*, what a
// settlement decides about deliveries, lanes and rows (R5, R7), how requests are carried out (R13), and how sweeps number rows (R8). It
// knows no driver and makes no statement: those it needs, a store supplies (Requests, Effects).
package store
