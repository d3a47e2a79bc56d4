// Package pgtest is what the tests of the packages of source/postgres share: databases with outbox tables, sources and stores on them, and deliveries
// to settle.
package pgtest
