// Package admin serves metrics for Prometheus, built from the relay's events, and health. /metrics, /healthz and /readyz need no token, but /readyz
// says why the relay is not ready only to this machine and to the holder of a token. The HTTP API and the console stand beside them, if there are any.
package admin
