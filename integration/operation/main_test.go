// Package operation tests what an operator meets: signals, health and metrics, logs, clusters that
// refuse or come late.
package operation

import (
	"testing"

	"github.com/informd/informd/integration/harness"
)

func TestMain(m *testing.M) { harness.Main(m, nil) }
