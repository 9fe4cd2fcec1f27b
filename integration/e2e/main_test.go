// Package e2e tests the built informd from outside: it runs the command, with real handler
// processes, real signals and a real API server.
//
// All tests share one binary of informd, which has the race detector, and one control plane, in
// which each test has a namespace of its own. A test that stops, damages or reconfigures the API
// server starts its own one. The beginning of a file's name says what its tests are about:
//
//	actions     changes of the cluster, straight from package engine/action
//	answers     changes of the cluster by handlers' answers and by rules
//	crashes     kill -9 of the daemon, its handlers and the API server
//	delivery    which events the daemon delivers, in which order, and how often
//	examples    every rule file under examples/
//	handlers    handler processes: hostile, confined, replaced, remote, in trouble
//	install     releases, the container image and deploy/, as users get them
//	languages   the example handlers in other languages, and the pages that show handlers
//	operation   what an operator meets: signals, health, metrics, logs, clusters that refuse
//	recording   informd record and replay, compared with the daemon
//	replicas    several informds with one state, under faults of processes, networks and disks
//	simulation  the simulator, compared with the engine and the daemon
//	state       the state directory: restarts, damage, full disks, secrets, backlogs
//	targets     rules' own actions on many objects, of which some fail, over restarts
package e2e

import (
	"os"
	"testing"

	"github.com/informd/informd/integration/harness"
	"github.com/informd/informd/plugins/serve"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == roleContainer {
		beContainer(os.Args[2], os.Args[3:])
	}
	harness.Main(m, map[string]func(string){
		puppetCommand:     servePuppet,
		recorderCommand:   serveRecorder,
		badHandlerCommand: serveBadHandler,
		librarianCommand:  serveLibrarian,
		hangingCommand:    serveHanging,
		witnessCommand:    serveWitness,
		answeringCommand:  answerLines,
		thawCommand:       thawWhenOver,
		gossipCommand:     func(path string) { serve.Main(gossip{path}) },
	})
}
