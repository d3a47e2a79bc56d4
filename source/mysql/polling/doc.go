// Package polling reads an outbox table in the order of its AUTO_INCREMENT column, where the binlog cannot be read. It waits for numbers that
// open transactions may still write.
package polling
