package daemon

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// After a rollback, informd refuses the state of the newer version, and names both ways out. The
// flag is the second one.
func TestStateOfANewerInformd(t *testing.T) {
	dir, log := t.TempDir(), slog.New(slog.DiscardHandler)
	begin := func(flags runFlags) error {
		flags.stateDir = dir
		_, store, err := openState(flags, "https://example.test", log)
		if err == nil {
			ended, end := context.WithCancel(t.Context())
			end()
			err = store.Run(ended)
		}
		return err
	}
	if err := begin(runFlags{version: "v2.0.0"}); err != nil {
		t.Fatal(err)
	}
	markers, err := filepath.Glob(filepath.Join(dir, "store", "marker.format-version.*"))
	if err != nil || len(markers) != 1 {
		t.Fatal(markers, err)
	}
	newer := filepath.Join(dir, "store", "marker.format-version.999999.999")
	if err := os.Rename(markers[0], newer); err != nil {
		t.Fatal(err)
	}
	err = begin(runFlags{version: "v1.0.0"})
	for _, want := range []string{dir, "informd v2.0.0", "--set-state-aside"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %s", err, want)
		}
	}
	if _, err := os.Stat(newer); err != nil {
		t.Errorf("the state was touched: %v", err)
	}
	if err := begin(runFlags{version: "v1.0.0", setStateAside: true}); err != nil {
		t.Error(err)
	}
	if aside, err := filepath.Glob(filepath.Join(dir, "broken-*-version")); err != nil || len(aside) != 1 {
		t.Errorf("set aside: %v, %v", aside, err)
	}
}
