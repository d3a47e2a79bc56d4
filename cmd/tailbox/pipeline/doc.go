// Package pipeline makes the parts of a configuration: sinks by their kinds, and the database by its own.
package pipeline
