package daemon

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// undumpable hides the daemon's memory, environment and open files, which hold the cluster's
// credentials, from processes of the same user, such as handlers. Only root can look into the
// daemon then, and it leaves no core dump. The process's files below /proc become root's; the
// daemon does not need them.
func undumpable() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("close the process to others of its user: %w", err)
	}
	return nil
}
