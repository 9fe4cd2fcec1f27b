package serve

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/informd/informd/plugins/handler"
)

// TestMain re-executes the test binary as a handler that was started by hand.
func TestMain(m *testing.M) {
	if os.Getenv("BY_HAND") != "" {
		Main(handler.Func(nil))
		return
	}
	goleak.VerifyTestMain(m)
}
