package confine

// Order is what a process applies to itself, as Prepare decided in the daemon. It is sent to that
// process as JSON. Only this package uses its fields.
type Order struct {
	User    *identity    `json:"user,omitempty"`
	Rlimits []rlimit     `json:"rlimits,omitempty"`
	Sandbox *sandboxPlan `json:"sandbox,omitempty"`
}

// identity is the user and the only group of the process.
type identity struct {
	UID int `json:"uid"`
	GID int `json:"gid"`
}

// rlimit is the soft and hard limit on one of the kernel's resources.
type rlimit struct {
	Resource int    `json:"resource"`
	Max      uint64 `json:"max"`
}

// sandboxPlan is what a sandbox allows.
type sandboxPlan struct {
	ABI     int      `json:"abi"` // the kernel's version of landlock
	Read    []string `json:"read,omitempty"`
	Write   []string `json:"write,omitempty"`
	Network Network  `json:"network"`
	Connect bool     `json:"connect,omitempty"` // allows unix sockets, whatever Network says
}
