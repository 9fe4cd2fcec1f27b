package state

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/informd/informd/engine/delivery"
	"github.com/informd/informd/engine/delta"
	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/queue"
	"github.com/informd/informd/engine/state/records"
	"github.com/informd/informd/plugins/handler"
)

// comparable compares objects by their content.
var byText = cmp.Transformer("JSON", func(o *object.Object) string {
	if o == nil {
		return ""
	}
	return string(o.JSON())
})

func TestRoundTrip(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "state")
	s := open(t, dir, Options{})
	if err := s.Bind(Cluster{UID: "u", Server: "https://api"}); err != nil {
		t.Fatal(err)
	}
	pods := s.Objects("pods", ObjectsOptions{Kept: "whole"})
	if got := s.mustLoad(t, "pods"); len(got.Objects) != 0 || got.ResourceVersion != "" {
		t.Fatalf("a new store has %v", got)
	}
	var (
		lane   = s.Lane("r", LaneOptions{})
		now    = time.Now().Round(0)
		first  = obj(t, "a", 1, strings.Repeat("first", 100))
		second = obj(t, "a", 2, "second")
	)
	wantLetter := delivery.Letter{
		ID: "r/u/updated/2", Rule: "r", Handler: "h", Resource: handler.Resource{Group: "apps", Version: "v1", Resource: "deployments"}, Key: key("a"), Reason: "no", Attempts: 3, Since: now, Died: now.Add(time.Second),
		Delta: delta.Delta{Type: delta.Updated, Object: second, Old: first}, Payload: json.RawMessage(`{"a":1}`),
	}
	older := wantLetter
	older.ID, older.Died = "z", now
	want := []records.Delivery{
		{Value: delivery.Delivery{
			Delta: delta.Delta{Type: delta.Updated, Object: second, Old: first}, Payload: json.RawMessage(`{"x":"` + strings.Repeat("long", 200) + `"}`),
			Stale: true, Undecided: true, Attempts: 1, Failures: 2, Backoff: 3, Losses: 4,
		}, Sent: true, Since: now, Due: now.Add(time.Hour)},
		{Value: delivery.Delivery{Delta: delta.Delta{Type: delta.Synced, Object: second, Round: -5}, Payload: json.RawMessage{}, Rule: "older"}, Redriven: true},
	}
	rule := RuleMemory{ID: "r", Name: "renamed", Former: []delivery.Former{{Rule: "r", Last: 1 << 62}}, Resource: "v1/pods", Seen: map[string]string{"pods": "object.x", "nodes": ""}, Paused: true}
	s.recorded(func() {
		pods.Put(first, nil)
		pods.Put(second, []string{"r", "other"})
		pods.Put(obj(t, "gone", 1, ""), nil)
		pods.Delete(key("gone"))
		pods.Put(obj(t, "b", 7, ""), nil)
		pods.Version("7")
		for n, d := range want {
			lane.Put(uint64(n+5), key("a"), d)
		}
		lane.Put(7, key("a"), want[0])
		lane.Delete(7, key("a"))
		s.PutRule(rule)
		s.PutRule(RuleMemory{Name: "dropped"})
		s.PutNote(Note{Rule: "dropped", Name: "a", Value: []byte("gone")})
		s.DropRule("dropped")
		s.PutNote(Note{Rule: "dropped", Name: "b", Value: []byte("of a rule that came after it")})
		s.PutNote(Note{Rule: "r", Name: "a", Value: []byte("old")})
		s.PutNote(Note{Rule: "r", Name: "a", Value: []byte("new")})
		s.PutNote(Note{Rule: "r", Name: "c", Value: []byte("gone")})
		s.DeleteNote("r", "c")
		s.PutLetter(wantLetter)
		s.PutLetter(older)
		s.PutLetter(delivery.Letter{ID: "forgotten", Delta: older.Delta})
		s.DeleteLetter("forgotten")
	})
	if got := s.Status(); got.Unwritten == 0 || got.UnwrittenBytes == 0 || got.Dir != dir || got.Trouble != "" {
		t.Errorf("status %+v", got)
	}
	closed(t, s)

	s = open(t, dir, Options{})
	defer closed(t, s)
	if err := s.Bind(Cluster{Server: "https://api"}); err != nil {
		t.Fatal(err)
	}
	snapshot := s.mustLoad(t, "pods")
	if diff := cmp.Diff(map[string]string{"a": "2", "b": "7"}, versions(snapshot)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[delta.Key][]string{key("a"): {"r", "other"}}, snapshot.Inside); diff != "" {
		t.Error(diff)
	}
	if snapshot.ResourceVersion != "7" || snapshot.Kept != "whole" {
		t.Errorf("resourceVersion %q, kept %q", snapshot.ResourceVersion, snapshot.Kept)
	}
	lane = s.Lane("r", LaneOptions{})
	keys, err := lane.Keys()
	if err != nil || len(keys) != 1 || keys[0].N != 2 || keys[0].First != 5 || keys[0].Last != 6 || keys[0].Bytes == 0 {
		t.Errorf("keys %+v, %v", keys, err)
	}
	got, err := lane.Load(key("a"), 0, 10, 1<<20)
	if diff := cmp.Diff([]queue.Numbered[delivery.Delivery]{{N: 5, Record: want[0]}, {N: 6, Record: want[1]}}, got, byText); diff != "" || err != nil {
		t.Error(diff, err)
	}
	notes, err := s.Notes()
	slices.SortFunc(notes, func(a, b Note) int { return strings.Compare(a.Rule, b.Rule) })
	wantNotes := []Note{{Rule: "dropped", Name: "b", Value: []byte("of a rule that came after it")}, {Rule: "r", Name: "a", Value: []byte("new")}}
	if diff := cmp.Diff(wantNotes, notes); diff != "" || err != nil {
		t.Error(diff, err)
	}
	rules, err := s.Rules()
	if diff := cmp.Diff([]RuleMemory{rule}, rules); diff != "" || err != nil {
		t.Error(diff, err)
	}
	list, err := s.Letters()
	if diff := cmp.Diff([]delivery.Letter{older, wantLetter}, list, byText); diff != "" || err != nil {
		t.Error(diff, err)
	}
	if ids, err := s.Informers(); err != nil || len(ids) != 1 || ids[0] != "pods" {
		t.Errorf("informers %v, %v", ids, err)
	}
}

func TestLoadOfALaneIsBounded(t *testing.T) {
	s := run(t, open(t, t.TempDir(), Options{FlushEvery: 5 * time.Millisecond}))
	lane := s.Lane("r", LaneOptions{})
	s.recorded(func() {
		for n := range uint64(20) {
			name := fmt.Sprint("k", n%2)
			lane.Put(n+1, key(name), records.Delivery{Value: delivery.Delivery{Delta: delta.Delta{Object: obj(t, name, int(n), strings.Repeat("x", 1000))}}})
		}
	})
	s.written()
	for _, c := range []struct {
		after    uint64
		items    int
		bytes    int64
		expected string
	}{
		{0, 3, 1 << 20, "1 3 5"},
		{5, 2, 1 << 20, "7 9"},
		{17, 5, 1 << 20, "19"},
		{19, 5, 1 << 20, ""},
		{^uint64(0), 5, 1 << 20, ""},
		{0, 5, 1, "1"},
		{0, 0, 1, ""},
	} {
		got, err := lane.Load(key("k0"), c.after, c.items, c.bytes)
		if err != nil {
			t.Fatal(err)
		}
		var ns []string
		for _, n := range got {
			ns = append(ns, fmt.Sprint(n.N))
		}
		if strings.Join(ns, " ") != c.expected {
			t.Errorf("after %d, %d items, %d bytes: got %v, want %s", c.after, c.items, c.bytes, ns, c.expected)
		}
	}
	if got, err := lane.Load(key("k"), 0, 10, 1<<20); len(got) > 0 || err != nil {
		t.Errorf("a key that is the beginning of another's has %d, %v", len(got), err)
	}
}

func TestDroppedLanesAreGone(t *testing.T) {
	s := run(t, open(t, t.TempDir(), Options{FlushEvery: 5 * time.Millisecond}))
	d := records.Delivery{Value: delivery.Delivery{Delta: delta.Delta{Object: obj(t, "a", 1, "")}}}
	old := s.Lane("r", LaneOptions{})
	s.recorded(func() {
		s.PutRule(RuleMemory{Name: "r"})
		old.Put(1, key("a"), d)
		old.Put(2, key("b"), records.Delivery{Value: delivery.Delivery{Delta: delta.Delta{Object: obj(t, "b", 1, "")}}})
		s.Objects("i", ObjectsOptions{}).Put(d.Value.Delta.Object, nil)
	})
	s.written()
	s.recorded(func() {
		s.DropRule("r")
		s.DropInformer("i")
		old.Put(3, key("a"), d) // has no effect
		again := s.Lane("r", LaneOptions{})
		if again == old {
			t.Error("a dropped rule's lane goes on")
		}
		if keys, err := again.Keys(); len(keys) > 0 || err != nil {
			t.Errorf("%v, %v wait for a rule that was dropped", keys, err)
		}
		again.Put(1, key("a"), d)
	})
	s.written()
	keys, err := s.Lane("r", LaneOptions{}).Keys()
	if err != nil || len(keys) != 1 || keys[0].N != 1 {
		t.Errorf("keys %v, %v", keys, err)
	}
	if rules, err := s.Rules(); len(rules) > 0 || err != nil {
		t.Errorf("rules %v, %v", rules, err)
	}
	if got := s.mustLoad(t, "i"); len(got.Objects) > 0 {
		t.Error("an informer that was dropped has objects")
	}
}

func TestKept(t *testing.T) {
	dir := t.TempDir()
	start := func(kept string) (*Store, *Objects, string) {
		s := open(t, dir, Options{})
		i := s.Objects("i", ObjectsOptions{Kept: kept})
		snapshot, err := i.Load()
		if err != nil {
			t.Fatal(err)
		}
		return s, i, snapshot.Kept
	}
	for _, c := range []struct {
		kept, found string
		record      func(i *Objects)
	}{
		{"a", "", func(i *Objects) { i.Put(obj(t, "x", 1, ""), nil); i.Version("1") }},
		{"b", "a", func(i *Objects) {}},
		{"b", "a", func(i *Objects) { i.Version("") }},
		{"b", "a", func(i *Objects) { i.Version("2") }},
		{"c", "b", func(i *Objects) { i.Version(""); i.Put(obj(t, "x", 2, ""), nil) }},
		{"c", KeptMixed, func(i *Objects) { i.Put(obj(t, "x", 3, ""), nil); i.Version("3") }},
		{"c", "c", func(i *Objects) {}},
	} {
		s, i, found := start(c.kept)
		if found != c.found {
			t.Errorf("found %q, want %q", found, c.found)
		}
		s.recorded(func() { c.record(i) })
		closed(t, s)
	}
}

// A version that is withdrawn stays known to have been there, over any number of runs.
func TestWithdrawnVersions(t *testing.T) {
	dir := t.TempDir()
	for run, c := range []struct {
		version     string // that the run before recorded last
		hasFollowed bool
		record      []string
	}{
		{"", false, []string{""}},
		{"", false, nil},
		{"", false, []string{"1", ""}},
		{"", true, nil},
		{"", true, []string{"", ""}},
		{"", true, []string{"2"}},
		{"2", true, []string{""}},
		{"", true, []string{"3"}},
		{"3", true, nil},
	} {
		s := open(t, dir, Options{})
		i := s.Objects("i", ObjectsOptions{})
		found, err := i.Load()
		if err != nil {
			t.Fatal(err)
		}
		if found.ResourceVersion != c.version || found.HasFollowed != c.hasFollowed {
			t.Errorf("run %d found version %q, followed %t; want %q, %t", run, found.ResourceVersion, found.HasFollowed, c.version, c.hasFollowed)
		}
		s.recorded(func() {
			i.Put(obj(t, "x", 1, ""), nil)
			for _, version := range c.record {
				i.Version(version)
			}
		})
		closed(t, s)
	}
}

func TestClusters(t *testing.T) {
	for _, c := range []struct {
		was, is Cluster
		same    bool
	}{
		{Cluster{UID: "u", Server: "a"}, Cluster{UID: "u", Server: "b"}, true},
		{Cluster{UID: "u", Server: "a"}, Cluster{UID: "v", Server: "a"}, false},
		{Cluster{UID: "", Server: "a"}, Cluster{UID: "v", Server: "a"}, true},
		{Cluster{UID: "u", Server: "a"}, Cluster{UID: "", Server: "a"}, true},
		{Cluster{UID: "u", Server: "a"}, Cluster{UID: "", Server: "b"}, false},
		{Cluster{UID: "", Server: "a"}, Cluster{UID: "", Server: "b"}, false},
	} {
		dir := t.TempDir()
		s := open(t, dir, Options{})
		if err := s.Bind(c.was); err != nil {
			t.Fatal(err)
		}
		s.recorded(func() { s.PutRule(RuleMemory{Name: "r"}) })
		closed(t, s)

		var log journal
		s = open(t, dir, Options{Logger: log.logger()})
		if err := s.Bind(c.is); err != nil {
			t.Fatal(err)
		}
		rules, err := s.Rules()
		if err != nil || (len(rules) == 1) != c.same || (len(s.Status().SetAside) == 0) != c.same {
			t.Errorf("%v after %v: rules %v, %v", c.is, c.was, rules, err)
		}
		if n := log.count("another cluster"); (n == 0) != c.same {
			t.Errorf("%d messages", n)
		}
		closed(t, s)

		s = open(t, dir, Options{})
		if err := s.Bind(c.is); err != nil || (len(s.Status().SetAside) == 0) != c.same {
			t.Errorf("%v is not remembered: %v", c.is, err)
		}
		closed(t, s)
	}
}

func TestSecretsAreNotWritten(t *testing.T) {
	dir := t.TempDir()
	s := run(t, open(t, dir, Options{FlushEvery: 5 * time.Millisecond}))
	const secret, coded = "hunter2-hunter2", "aHVudGVyMi1odW50ZXIy"
	i, lane := s.Objects("secrets", ObjectsOptions{Secret: true}), s.Lane("r", LaneOptions{Secret: true})
	s.recorded(func() {
		for n := range 300 {
			name := fmt.Sprint("s", n)
			o := obj(t, name, n, secret+coded)
			i.Put(o, []string{"r"})
			d := delta.Delta{Type: delta.Updated, Object: o, Old: obj(t, name, n-1, secret+coded)}
			text := json.RawMessage(`"` + secret + coded + `"`)
			lane.Put(uint64(n+1), key(name), records.Delivery{Value: delivery.Delivery{Delta: d, Payload: text, Answer: delivery.Recorded(text)}})
			s.PutLetter(delivery.Letter{ID: name, Delta: d, Key: key(name), Reason: secret, Payload: json.RawMessage(`"` + coded + `"`), Resource: handler.Resource{Version: "v1", Resource: "secrets"}})
		}
	})
	s.written()
	search := func() {
		files := 0
		err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
			if err != nil || e.IsDir() {
				return err
			}
			text, err := os.ReadFile(path)
			files++
			for _, s := range []string{"hunter2", "HVudGVy", "tier"} {
				if strings.Contains(string(text), s) {
					t.Errorf("%s contains %q", path, s)
				}
			}
			return err
		})
		if err != nil || files < 4 {
			t.Fatalf("%d files, %v", files, err)
		}
	}
	search() // the log has it
	s.stop()
	search() // Pebble has it
	again := open(t, dir, Options{})
	defer closed(t, again)
	snapshot := again.mustLoad(t, "secrets")
	if len(snapshot.Objects) != 300 || len(snapshot.Inside) != 300 {
		t.Errorf("%d objects, %d inside", len(snapshot.Objects), len(snapshot.Inside))
	}
	if list, err := again.Letters(); len(list) != 300 || err != nil || list[0].Reason != "" || list[0].Payload != nil || !list[0].Confidential || !list[0].OfSecret() || list[0].Delta.Old.UID() == "" {
		t.Errorf("%d letters, %v", len(list), err)
	}
	if err := again.db.Load().read(time.Second, again.hasNoDictionary); err != nil {
		t.Error(err)
	}
	got, err := again.Lane("r", LaneOptions{}).Load(key("s7"), 0, 1, 1)
	if err != nil || len(got) != 1 || got[0].Value.Payload != nil || got[0].Value.Answer != nil || got[0].Value.Delta.Object.ResourceVersion() != "7" {
		t.Errorf("%v, %v", got, err)
	}
}

// A delivery that is acknowledged before it is written costs no write and leaves nothing in memory.
func TestAcknowledgedBeforeTheFlush(t *testing.T) {
	s := open(t, t.TempDir(), Options{})
	defer closed(t, s)
	lane := s.Lane("r", LaneOptions{})
	if _, err := lane.Keys(); err != nil {
		t.Fatal(err)
	}
	d := records.Delivery{Value: delivery.Delivery{Delta: delta.Delta{Object: obj(t, "a", 1, "")}}}
	n := uint64(0)
	allocated := testing.AllocsPerRun(100, func() {
		n++
		s.Begin()
		lane.Put(n, key("a"), d)
		lane.Delete(n, key("a"))
		s.End()
	})
	if allocated > 1 {
		t.Errorf("%v allocations", allocated)
	}
	if status := s.Status(); status.Unwritten != 0 || status.UnwrittenBytes != 0 || len(lane.unwritten) != 0 {
		t.Errorf("%+v is left", status)
	}
}
