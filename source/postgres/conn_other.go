//go:build !linux

package postgres

import "syscall"

// dialControl sets nothing here: keepalive probes have to do.
func dialControl(string, string, syscall.RawConn) error { return nil }
