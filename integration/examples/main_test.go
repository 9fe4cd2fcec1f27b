// Package examples tests every rule file under examples/ against a real API server.
package examples

import (
	"testing"

	"github.com/informd/informd/integration/harness"
)

func TestMain(m *testing.M) { harness.Main(m, nil) }
