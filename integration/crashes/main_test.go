// Package crashes kills the daemon, its handlers and the API server, and compares what was written
// with what was delivered.
package crashes

import (
	"testing"

	"github.com/informd/informd/integration/harness"
)

func TestMain(m *testing.M) {
	harness.Main(m, map[string]func(string){
		recorderCommand: serveRecorder,
	})
}
