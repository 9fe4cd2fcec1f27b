package daemon

import (
	"os"
	"runtime"
)

// leastProcessors is how many of Go's processors informd has, even on a smaller machine.
const leastProcessors = 4

// spread gives informd more of Go's processors than a small machine has. Long work on one source,
// such as a list or a flush of the state, keeps a processor from others for 10 ms at a time: Go
// takes it away no sooner. A change of another source goes through several goroutines, and may have
// to wait for each. With more of Go's processors, the kernel shares out the machine, and prefers
// who has just woken up. That makes the longest delays two to six times shorter. It costs up to a
// tenth of processor time at full speed, and nothing at ordinary rates.
func spread() {
	now := runtime.GOMAXPROCS(0)
	if n := processors(os.Getenv("GOMAXPROCS") != "", now, runtime.NumCPU()); n != now {
		runtime.GOMAXPROCS(n)
	}
}

// processors returns GOMAXPROCS for informd. chosen is what Go has chosen, machine the number of the
// machine's processors. It leaves alone what the operator has set, and a limit of the container below
// machine: more of Go's processors would use up the limit sooner, and all would have to stop. Go
// counts a limit below two as two.
func processors(isSet bool, chosen, machine int) int {
	if isSet || chosen != machine {
		return chosen
	}
	return max(chosen, leastProcessors)
}
