//go:build !linux

package dial

import "syscall"

// control sets nothing here: keepalive probes have to do.
func control(string, string, syscall.RawConn) error { return nil }
