package confine

import "golang.org/x/sys/unix"

const auditArch = unix.AUDIT_ARCH_AARCH64

// archCalls are denied, too: those that not every architecture has.
var archCalls = []uint32{unix.SYS_SEMOP, unix.SYS_SEMTIMEDOP}
