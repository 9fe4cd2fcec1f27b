package daemon

import (
	"os"
	"runtime"
)

// leastProcessors is how many of Go's processors informd has, even on a smaller machine.
const leastProcessors = 4

// spread gives informd more of Go's processors than a small machine has. Long work on one source, such
// as a list or a flush of the state, keeps a processor from others for 10 ms at a time: Go takes it
// away no sooner. A change of another source goes through several goroutines, and may have to wait
// for each. If there are more of them than the machine has, the kernel shares out the machine, and
// prefers who has just woken up. That shortens the longest delays to a third. It costs some 5% of
// processor time at full speed, and nothing at ordinary rates.
//
// A limit of the container stays: there, more processors would use it up sooner, and all of them
// would have to stop. So does GOMAXPROCS.
func spread() {
	now := runtime.GOMAXPROCS(0)
	if os.Getenv("GOMAXPROCS") == "" && now == runtime.NumCPU() && now < leastProcessors {
		runtime.GOMAXPROCS(leastProcessors)
	}
}
