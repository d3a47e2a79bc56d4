//go:build !linux

package mongo

import "os"

// thisProcess describes the running process, as far as that is of use here.
func thisProcess() holder { return holder{PID: os.Getpid()} }

// dead is never known here: a lease ends by itself.
func (h *holder) dead() bool { return false }
