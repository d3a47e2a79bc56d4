// Package api serves the HTTP API of a pipeline, /api/v1, for people and programs that steer a relay without its database's credentials. It shows
// what the command line shows, and asks for what the command line asks for: an operation that changes something is a row of tailbox_request, which
// the relay that holds the lock carries out. So every process of a pipeline answers everything, a standby too.
//
// An operation is a function with typed input and output in a file of its own subject. The OpenAPI document is derived from these types, and
// requests are checked against it before an operation sees them. Each operation names the role that it needs; access.go decides.
package api
