package daemon

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/informd/informd/cmd/informd/cli"
	"github.com/informd/informd/engine/replica"
	"github.com/informd/informd/engine/state"
)

// foundBy runs informd cluster adopt or recover, and returns everything that it says.
func foundBy(t *testing.T, args ...string) (code int, says string) {
	t.Helper()
	var out bytes.Buffer
	root := cli.NewGroup("cluster", "", "", NewAdoptCommand("v1"), NewRecoverCommand("v1"))
	code = cli.Execute(t.Context(), root, args, &out, &out)
	return code, out.String()
}

// aStateDir returns a directory with the state of an informd without replicas.
func aStateDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	store, err := state.Open(dir, state.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if err := store.Run(ended); err != nil {
		t.Fatal(err)
	}
	return dir
}

// has reports whether there is a file with a name in dir.
func has(t *testing.T, dir, name string) bool {
	t.Helper()
	is, err := exists(dir, name)
	if err != nil {
		t.Fatal(err)
	}
	return is
}

// A directory of the wrong kind is refused, and stays as it is. The error says what to do.
func TestWhatCannotBeTheFirstReplica(t *testing.T) {
	alone, adopted, inUse := aStateDir(t), aStateDir(t), aStateDir(t)
	if code, says := foundBy(t, "adopt", "--state-dir", adopted, "--name", "a", "--yes"); code != 0 {
		t.Fatal(says)
	}
	store, err := state.OpenReplica(inUse, state.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	damaged := aStateDir(t)
	manifests, err := filepath.Glob(filepath.Join(damaged, "store", "MANIFEST-*"))
	if err != nil || len(manifests) == 0 {
		t.Fatal(manifests, err)
	}
	if err := os.WriteFile(manifests[0], []byte("something else"), 0o600); err != nil {
		t.Fatal(err)
	}
	began := t.TempDir() // of a replica that has never met the others
	if err := os.MkdirAll(filepath.Join(began, raftName), 0o700); err != nil {
		t.Fatal(err)
	}
	if store, err := state.OpenReplica(began, state.Options{}); err != nil || store.Close() != nil {
		t.Fatal(err)
	}
	lost := aStateDir(t) // what its replica has agreed to is damaged
	if err := os.Mkdir(filepath.Join(lost, raftName), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(lost, raftName, "id"), []byte("?"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"adopt", "--name", "a"}, cli.ExitUsage, "--state-dir or --name is missing"},
		{[]string{"adopt", "--state-dir", alone}, cli.ExitUsage, "--state-dir or --name is missing"},
		{[]string{"adopt", "--state-dir", alone, "--name", "a/b"}, cli.ExitUsage, "cannot be named"},
		{[]string{"adopt", "--state-dir", adopted, "--name", "a"}, cli.ExitFailed, "use informd cluster recover"},
		{[]string{"adopt", "--state-dir", t.TempDir(), "--name", "a"}, cli.ExitFailed, "start all replicas with empty"},
		{[]string{"adopt", "--state-dir", alone + "/x", "--name", "a"}, cli.ExitFailed, "there is no state"},
		{[]string{"adopt", "--state-dir", manifests[0], "--name", "a"}, cli.ExitFailed, "there is no state"},
		{[]string{"adopt", "--state-dir", inUse, "--name", "a"}, cli.ExitFailed, "stop it first"},
		{[]string{"adopt", "--state-dir", damaged, "--name", "a"}, cli.ExitFailed, "cannot be used"},
		{[]string{"recover", "--state-dir", alone, "--name", "a"}, cli.ExitFailed, "use informd cluster adopt"},
		{[]string{"recover", "--state-dir", t.TempDir(), "--name", "a"}, cli.ExitFailed, "there is no state"},
		{[]string{"recover", "--state-dir", inUse, "--name", "a"}, cli.ExitFailed, "stop it first"},
		{[]string{"recover", "--state-dir", damaged, "--name", "a"}, cli.ExitFailed, "cannot be used"},
		{[]string{"recover", "--state-dir", began, "--name", "a"}, cli.ExitFailed, "has received nothing"},
		{[]string{"recover", "--state-dir", lost, "--name", "a"}, cli.ExitFailed, "remove raft from the directory"},
	} {
		for _, args := range [][]string{c.args, append(c.args, "--yes")} {
			if code, says := foundBy(t, args...); code != c.code || !strings.Contains(says, c.want) {
				t.Errorf("%q: %d, %s", args, code, says)
			}
		}
	}
	for _, dir := range []string{alone, damaged} {
		if has(t, dir, raftName) || has(t, dir, formerName) || hasLost(dir) {
			t.Errorf("%s was changed", dir)
		}
	}
}

// A replica that has no others yet can get another name.
func TestRecoverWithAnotherName(t *testing.T) {
	dir := aStateDir(t)
	for _, args := range [][]string{{"adopt", "--name", "z"}, {"recover", "--name", "a"}} {
		args = append(args, "--state-dir", dir, "--yes")
		if code, says := foundBy(t, args...); code != 0 || !strings.Contains(says, "start the replica "+args[2]) {
			t.Fatalf("%q: %d, %s", args, code, says)
		}
	}
	if is, err := replica.Inspect(filepath.Join(dir, raftName), nil); err != nil || is.Name != "a" {
		t.Errorf("it is %+v, %v", is, err)
	}
}

// A recovery that was cut short at any moment goes on where it was. Until then informd does not start
// there.
func TestARecoveryThatIsCutShort(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	dir := aStateDir(t)
	must := func(command string) {
		t.Helper()
		code, says := foundBy(t, command, "--state-dir", dir, "--name", "a", "--yes")
		if code != 0 || !has(t, dir, raftName) || has(t, dir, formerName) || has(t, dir, raftName+".new") {
			t.Fatalf("%s: %d, %s", command, code, says)
		}
	}
	id := func() string {
		content, err := os.ReadFile(filepath.Join(dir, raftName, "id"))
		if err != nil {
			t.Fatal(err)
		}
		return string(content)
	}
	must("adopt")
	first, err := replica.Inspect(filepath.Join(dir, raftName), nil)
	if err != nil {
		t.Fatal(err)
	}
	was := id()
	if code, says := foundBy(t, "recover", "--state-dir", dir, "--name", "a"); code != 0 || id() != was {
		t.Errorf("without --yes: %d, %s", code, says)
	}
	must("recover")

	if err := os.Rename(filepath.Join(dir, raftName), filepath.Join(dir, formerName)); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, raftName+".new"), 0o700); err != nil {
		t.Fatal(err)
	}
	const again = "run informd cluster recover again"
	if _, _, err := openState(runFlags{stateDir: dir}, "", log); err == nil || !strings.Contains(err.Error(), again) {
		t.Errorf("informd without replicas starts: %v", err)
	}
	if _, err := openReplica(dir, "v1", log); err == nil || !strings.Contains(err.Error(), again) {
		t.Errorf("the replica starts: %v", err)
	}
	if _, says := foundBy(t, "adopt", "--state-dir", dir, "--name", "a", "--yes"); !strings.Contains(says, again) {
		t.Errorf("adopt says %s", says)
	}
	must("recover")

	// An informd that began at the wrong moment has made an empty raft, and could not lock the directory.
	if err := os.Rename(filepath.Join(dir, raftName), filepath.Join(dir, formerName)); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, raftName), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := openReplica(dir, "v1", log); err == nil || !strings.Contains(err.Error(), again) || !has(t, dir, formerName) {
		t.Errorf("the replica starts with an empty raft: %v", err)
	}
	if _, says := foundBy(t, "adopt", "--state-dir", dir, "--name", "a", "--yes"); !strings.Contains(says, again) {
		t.Errorf("adopt says %s", says)
	}
	must("recover")

	made := id()
	for _, goOn := range []func(){
		func() { must("recover") },
		func() {
			store, err := openReplica(dir, "v1", log)
			if err != nil || store.Close() != nil {
				t.Fatal(err)
			}
		},
	} {
		if err := os.Mkdir(filepath.Join(dir, formerName), 0o700); err != nil {
			t.Fatal(err)
		}
		if goOn(); has(t, dir, formerName) || id() != made {
			t.Error("the recovery that had ended is not the one that counts")
		}
	}
	is, err := replica.Inspect(filepath.Join(dir, raftName), nil)
	if err != nil || is.Cluster != first.Cluster || is.Name != "a" || is.Last != first.Last+3 || is.Term != first.Term+3 {
		t.Errorf("the replica is %+v, %v, and was %+v", is, err, first)
	}
}
