package daemon

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// undumpable keeps processes of the same user, which handlers are, from the daemon's memory, environment and open files:
// they hold the credentials of the cluster. Only root can look into it then, and it leaves no core dump behind. The process's
// files below /proc become root's, which the daemon itself does not need.
func undumpable() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("close the process to others of its user: %w", err)
	}
	return nil
}
