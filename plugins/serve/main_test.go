package serve

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// TestMain re-executes the test binary as a handler: one that was started by hand, one under test,
// one that calls go-plugin itself, or one that runs elsewhere.
func TestMain(m *testing.M) {
	switch address := os.Getenv("REMOTE"); {
	case os.Getenv("BY_HAND") != "":
		Main(&tryOut{})
		return
	case os.Getenv("PLUGIN") != "":
		servePlugin()
		return
	case os.Getenv("HANDLER") != "":
		Main(&writer{})
		return
	case address != "":
		if err := serveRemote(address); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}
