// Package answers tests actions, with which handlers' answers and rules change the cluster.
package answers

import (
	"testing"

	"github.com/informd/informd/integration/harness"
)

func TestMain(m *testing.M) {
	harness.Main(m, map[string]func(string){
		puppetCommand: servePuppet,
	})
}
