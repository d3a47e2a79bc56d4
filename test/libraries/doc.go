// Package libraries has outbox libraries of others write messages with their own code into tables of their own making. tailbox, with the configuration of
// the page that speaks of the library, delivers them. The OTLP receiver of the OpenTelemetry Collector, with an
// application that is traced by OpenTelemetry's own library, takes the traces. It is a module of its own, which keeps these libraries out of the product's go.mod.
package libraries
