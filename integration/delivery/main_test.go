// Package delivery tests what the daemon delivers for changes of objects: which events, in which
// order, and how often.
package delivery

import (
	"testing"

	"github.com/informd/informd/integration/harness"
)

func TestMain(m *testing.M) { harness.Main(m, nil) }
