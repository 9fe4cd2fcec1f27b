// Package handlers tests handler processes under the daemon: hostile, confined, replaced, remote,
// and in trouble.
package handlers

import (
	"testing"

	"github.com/informd/informd/integration/harness"
)

func TestMain(m *testing.M) {
	harness.Main(m, map[string]func(string){
		badHandlerCommand: serveBadHandler,
		librarianCommand:  serveLibrarian,
		hangingCommand:    serveHanging,
		answeringCommand:  answerLines,
	})
}
