//go:build unix

package pgtest

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// ChownLike gives a file the owner of another one: the test server may run as a user of its own.
func ChownLike(file string, like fs.FileInfo) error {
	stat, ok := like.Sys().(*syscall.Stat_t)
	if !ok {
		return fmt.Errorf("look up owner: %T", like.Sys())
	}
	return os.Chown(file, int(stat.Uid), int(stat.Gid))
}
