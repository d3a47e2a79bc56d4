// Package admin serves metrics for Prometheus, built from the relay's events, and health. /healthz and /readyz need no token, but /readyz
// says why the relay is not ready only to this machine and to the holder of a token. The metrics may have a token of their own. The HTTP API and the
// console stand beside them, if there are any.
package admin
