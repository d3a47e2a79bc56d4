//go:build unix

package main

import (
	"os"

	"golang.org/x/sys/unix"
)

// width is how many characters fit into a line of a terminal; 0 if the file is none.
func width(f *os.File) int {
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0
	}
	return int(size.Col)
}
