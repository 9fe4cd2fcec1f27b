// Package languages tests the example handlers in other languages, and the pages of docs/ that show
// handlers.
package languages

import (
	"testing"

	"github.com/informd/informd/integration/harness"
)

func TestMain(m *testing.M) { harness.Main(m, nil) }
