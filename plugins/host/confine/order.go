package confine

// Order is what a process has to do to itself, decided by Prepare in the daemon. It travels to that process as JSON; its
// fields are nobody else's concern.
type Order struct {
	User    *identity    `json:"user,omitempty"`
	Rlimits []rlimit     `json:"rlimits,omitempty"`
	Sandbox *sandboxPlan `json:"sandbox,omitempty"`
}

// identity is who the process becomes; it is in no other group.
type identity struct {
	UID int `json:"uid"`
	GID int `json:"gid"`
}

// rlimit is a bound, soft and hard, on one of the kernel's resources.
type rlimit struct {
	Resource int    `json:"resource"`
	Max      uint64 `json:"max"`
}

// sandboxPlan is what a sandbox leaves.
type sandboxPlan struct {
	ABI     int      `json:"abi"` // the kernel's version of landlock
	Read    []string `json:"read,omitempty"`
	Write   []string `json:"write,omitempty"`
	Network Network  `json:"network"`
	Connect bool     `json:"connect,omitempty"` // to unix sockets, whatever Network says
}
