package daemon

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

// A person who reads JSON should not have to divide by a billion.
func TestDurationsInJSON(t *testing.T) {
	var out strings.Builder
	log, err := newLogger(&out, "json", "info")
	if err != nil {
		t.Fatal(err)
	}
	log.Info("source has synced", "took", 1500*time.Millisecond, "objects", 3)
	var record map[string]any
	if err := json.Unmarshal([]byte(out.String()), &record); err != nil {
		t.Fatalf("%v: %s", err, out.String())
	}
	if record["took"] != "1.5s" || record["objects"] != 3.0 {
		t.Errorf("want took 1.5s and 3 objects: %s", out.String())
	}
}
