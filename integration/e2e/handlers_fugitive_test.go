package e2e

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/informd/informd/integration/harness"
	"github.com/informd/informd/internal/procfs"
)

// A process of the daemon's user can kill its shim. What is left of its handler becomes the
// daemon's child: the control socket turns it away, and the daemon reaps it at its end.
func TestFugitivesAreTurnedAway(t *testing.T) {
	t.Parallel()
	// The exec builtin is the shell's parent, and the shim is the builtin's. The grandchild asks
	// until its shim, and with it the builtin, is gone, and many times from then on.
	const script = `cat >/dev/null
mkdir "$0/once" || exit 0
read -r _ _ _ shim _ <"/proc/$PPID/stat"
setsid sh -c '
	said() { INFORMD status --control CONTROL 2>&1 | tr "\n" " "; echo; }
	n=0
	while test -e "/proc/$1/fd/0"; do said; done >>"$0/before"
	echo $$ >"$0/pid"
	while test $n -lt 10; do said; n=$((n+1)); done >"$0/after"
	mv "$0/after" "$0/answers"
' "$0" "$PPID" </dev/null >/dev/null 2>&1 &
until test -s "$0/before"; do sleep 0.01; done
kill -9 "$shim"`
	s := harness.NewStage(t, "")
	text := strings.NewReplacer("INFORMD", harness.Binary, "CONTROL", filepath.Join(s.State, "control.sock")).Replace(script)
	s.Write(t, harness.SteadySpec, harness.Handler("fugitive", "builtin: exec, env: [PATH], config: {command: [/bin/sh, -c, "+strconv.Quote(text)+", "+s.Dir+"]}")+
		harness.Rule("fugitive", "source: widgets, handler: fugitive, where: object.metadata.name == 'widget-0001'"))
	s.Open(t, nil)
	var answers []byte
	s.Poll("the fugitive to have asked", func() (ok bool) {
		var err error
		answers, err = os.ReadFile(filepath.Join(s.Dir, "answers"))
		return err == nil
	})
	for line := range strings.Lines(string(answers)) {
		if !strings.Contains(line, "a handler may not ask informd") {
			t.Fatalf("a process whose shim was killed is answered: %s", line)
		}
	}
	number, err := os.ReadFile(filepath.Join(s.Dir, "pid"))
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(number)))
	if err != nil {
		t.Fatal(err)
	}
	s.Poll("the daemon to reap the fugitive", func() bool {
		_, err := procfs.Read(pid)
		return err != nil
	})
	s.Stop()
}
