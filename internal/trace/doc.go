// Package trace makes an OpenTelemetry span of each attempt of a delivery, and sends it over OTLP/HTTP to a collector. It reads the standard environment.
// The encoder is its own: the official SDK and its exporter would take more memory than a relay that is idle.
//
// Nothing here may slow the relay. Answered encodes a span and puts it into a bounded queue, or counts it as dropped if the queue is full. One goroutine
// sends the queue.
package trace
