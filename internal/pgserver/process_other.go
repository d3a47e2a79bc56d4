//go:build !unix

package pgserver

import (
	"os"
	"os/exec"
)

const noFollow = 0

func demote(*exec.Cmd) {}

func detach(*exec.Cmd) {}

func own(string) error { return nil }

func quit(p *os.Process) error { return p.Kill() }
