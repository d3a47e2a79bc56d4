// Package setup prepares a database for the relay: it creates collections and indexes, runs migrations, writes the scripts that do the
// same in mongosh, and checks whether everything is there that the relay needs.
package setup
