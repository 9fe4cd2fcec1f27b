package serve

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// TestMain re-executes the test binary as a handler that was started by hand.
func TestMain(m *testing.M) {
	if os.Getenv("BY_HAND") != "" {
		Main(&tryOut{})
		return
	}
	goleak.VerifyTestMain(m)
}
