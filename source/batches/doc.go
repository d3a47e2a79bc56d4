// Package batches fills batches of messages (source.Batch), for the readers of all logs. It knows nothing of positions: what a reader can
// resume from, and when progress without messages is worth a batch, is each one's own.
package batches
