// Package pgserver runs a Postgres server of our own for `tailbox demo`: it finds the programs or downloads them, makes
// a data directory, and starts the server on a free port of the loopback interface. As root the server runs as an
// unprivileged user, because Postgres refuses root. Whatever way the process ends, a guard beside the server stops it
// and removes its folder.
package pgserver
