// Package state tests the state directory: restarts, damage, full disks, secrets, backlogs.
package state

import (
	"testing"

	"github.com/informd/informd/integration/harness"
	"github.com/informd/informd/plugins/serve"
)

func TestMain(m *testing.M) {
	harness.Main(m, map[string]func(string){
		gossipCommand: func(path string) { serve.Main(gossip{path}) },
	})
}
