// Package sqltext reads what statements in the binlog do to tables, from their text alone. It answers two questions. Both matter only if
// the server is not set up as tailbox advises, so the log has a statement where a message needs more:
//
//   - Did a statement insert rows that the log does not hold, because a session used binlog_format STATEMENT or MIXED (Verb, Target)?
//   - May a statement have changed the columns of a table (ChangesColumns)? With binlog_row_metadata below FULL, the log does not name
//     the columns of rows, so rows from before such a statement cannot be read by the columns of today.
//
// It is no parser: it errs towards yes, because a wrong yes stops the reader with an explanation, and a wrong no would lose messages.
package sqltext
