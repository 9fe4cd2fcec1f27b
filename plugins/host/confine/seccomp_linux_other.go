//go:build linux && !amd64 && !arm64

package confine

// auditArch 0: the sandbox is not available.
const auditArch = 0

var archCalls []uint32
