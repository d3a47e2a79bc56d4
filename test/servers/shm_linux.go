package servers

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// removeSegment removes a System V shared memory segment; one that is gone
// already is no error.
func removeSegment(id int) error {
	_, err := unix.SysvShmCtl(id, unix.IPC_RMID, nil)
	if err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.EIDRM) {
		return fmt.Errorf("remove shared memory %d: %w", id, err)
	}
	return nil
}
