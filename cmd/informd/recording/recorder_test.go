package recording

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/informd/informd/engine/object"
	"github.com/informd/informd/engine/plan"
)

var pods = schema.GroupVersionResource{Version: "v1", Resource: "pods"}

func state(t *testing.T, name, uid, version string) *object.Object {
	t.Helper()
	o, err := object.FromJSON(fmt.Appendf(nil,
		`{"metadata":{"namespace":"shop","name":%q,"uid":%q,"resourceVersion":%q}}`, name, uid, version))
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// memory returns a recorder of some selections that writes to memory, and what it wrote.
func memory(t *testing.T, selections ...object.Selection) (*recorder, func() []string) {
	t.Helper()
	var out bytes.Buffer
	f, err := create("-", false, &out)
	if err != nil {
		t.Fatal(err)
	}
	r := newRecorder(nil, selections, t.Logf)
	r.out = f
	return r, func() (lines []string) {
		t.Helper()
		if err := f.flush(); err != nil {
			t.Fatal(err)
		}
		for text := range strings.Lines(out.String()) {
			var l line
			if err := json.Unmarshal([]byte(text), &l); err != nil || l.Time.IsZero() {
				t.Fatalf("%s: %v", text, err)
			}
			var o struct{ Metadata identity }
			_ = json.Unmarshal(l.Object, &o) // of a gap it is a Status
			lines = append(lines, strings.TrimSpace(fmt.Sprintf("%s %s %s %s", l.Type, l.Resource, o.Metadata.Name, o.Metadata.ResourceVersion)))
		}
		out.Reset()
		return lines
	}
}

// A state that is known is not recorded again, nor a deletion of what was not there.
func TestKnownStates(t *testing.T) {
	t.Parallel()
	r, lines := memory(t, object.Selection{Resource: pods})
	f := r.followers[0]
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(r.first(f, []*object.Object{state(t, "a", "u", "1"), state(t, "b", "v", "2")}))
	must(r.reported(f, typeAdded, state(t, "b", "v", "2")))
	must(r.reported(f, typeModified, state(t, "a", "u", "3")))
	must(r.reported(f, typeDeleted, state(t, "a", "u", "5")))
	must(r.reported(f, typeDeleted, state(t, "a", "u", "5")))
	must(r.reported(f, typeAdded, state(t, "a", "w", "6")))
	want := []string{"ADDED v1/pods a 1", "ADDED v1/pods b 2", "MODIFIED v1/pods a 3", "DELETED v1/pods a 5", "ADDED v1/pods a 6"}
	if diff := cmp.Diff(want, lines()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if r.objects != 2 || r.changes != 3 {
		t.Errorf("%d objects, %d changes", r.objects, r.changes)
	}
}

// After a gap, the recording has what a comparison shows, as one block.
func TestGap(t *testing.T) {
	t.Parallel()
	r, lines := memory(t, object.Selection{Resource: pods})
	f := r.followers[0]
	for _, o := range []*object.Object{state(t, "same", "u1", "1"), state(t, "changed", "u2", "2"), state(t, "gone", "u3", "3"), state(t, "other", "u4", "4")} {
		if err := r.reported(f, typeAdded, o); err != nil {
			t.Fatal(err)
		}
	}
	lines()
	if err := r.listedAgain(f, []*object.Object{state(t, "same", "u1", "1"), state(t, "changed", "u2", "7"), state(t, "new", "u5", "8"), state(t, "other", "u6", "9")}); err != nil {
		t.Fatal(err)
	}
	want := []string{"ERROR v1/pods", "MODIFIED v1/pods changed 7", "ADDED v1/pods new 8", "MODIFIED v1/pods other 9", "DELETED v1/pods gone 3", "LISTED v1/pods"}
	if diff := cmp.Diff(want, lines()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// Selections that overlap become one, as small as can be.
func TestSelectionsOfAPlan(t *testing.T) {
	t.Parallel()
	of := func(namespace, labels string) *plan.Informer {
		return &plan.Informer{Selection: object.Selection{Resource: pods, Namespace: namespace, LabelSelector: labels}}
	}
	for _, test := range []struct {
		informers []*plan.Informer
		want      []string
	}{
		{[]*plan.Informer{of("web", "app=web"), of("shop", ""), of("db", "")}, []string{"v1/pods (namespace web) (labels app=web)", "v1/pods (namespace shop)", "v1/pods (namespace db)"}},
		{[]*plan.Informer{of("web", "app=web"), of("shop", ""), of("web", "app=db")}, []string{"v1/pods (namespace shop)", "v1/pods (namespace web)"}},
		{[]*plan.Informer{of("web", "app=web"), of("shop", "app=web"), of("", "app=web")}, []string{"v1/pods (labels app=web)"}},
		{[]*plan.Informer{of("web", "app=web"), of("shop", "app=web"), of("", "app=db")}, []string{"v1/pods"}},
		{[]*plan.Informer{of("web", "app=web"), {Selection: object.Selection{Resource: object.Secrets}}}, []string{"v1/pods (namespace web) (labels app=web)", "v1/secrets"}},
	} {
		var got []string
		for _, s := range selections(&plan.Plan{Informers: test.informers}) {
			got = append(got, newSelection(s).String())
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	}
}

// Equal values have equal masks, in one recording. A mask is base64, as the value was.
func TestMasks(t *testing.T) {
	t.Parallel()
	m := newMasker()
	mask := func(m masker, data string) (values map[string]string) {
		t.Helper()
		var o struct{ Data map[string]string }
		if err := json.Unmarshal(m.secret([]byte(`{"kind":"Secret","metadata":{"name":"s"},"data":`+data+`}`)), &o); err != nil {
			t.Fatal(err)
		}
		return o.Data
	}
	values := mask(m, `{"a":"djE=","b":"djE=","c":"djI="}`)
	if values["a"] != values["b"] || values["a"] == values["c"] || values["a"] != mask(m, `{"x":"djE="}`)["x"] {
		t.Errorf("masks %v", values)
	}
	if text, err := base64.StdEncoding.DecodeString(values["a"]); err != nil || !strings.HasPrefix(string(text), "masked-") {
		t.Errorf("mask %q: %v", text, err)
	}
	if other := mask(newMasker(), `{"a":"djE="}`); other["a"] == values["a"] {
		t.Error("two recordings have the same masks")
	}
}

func TestFiles(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "r.jsonl.gz")
	write := func(force bool, kind string) error {
		f, err := create(path, force, nil)
		if err != nil {
			return err
		}
		if err := f.write(line{Type: kind}, line{Type: typeListed}); err != nil {
			return err
		}
		return errors.Join(f.keep(), f.close())
	}
	if err := write(false, typeRecording); err != nil {
		t.Fatal(err)
	}
	if err := write(false, typeRecording); err == nil || !strings.Contains(err.Error(), "exists: give another name, or --force") {
		t.Errorf("it was replaced: %v", err)
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := write(true, typeRecording); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got, _, err := readAll(t, bytes.NewReader(text)); err != nil || len(got) != 2 {
		t.Errorf("%v, %v", got, err)
	}
}

// A recording never goes into a file that somebody else has prepared, and a recording that fails
// leaves the one that it was to replace.
func TestReplacedFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	victim, link := filepath.Join(dir, "victim"), filepath.Join(dir, "link")
	if err := errors.Join(os.WriteFile(victim, []byte("precious"), 0o644), os.Symlink(victim, link)); err != nil {
		t.Fatal(err)
	}
	for _, force := range []bool{false, true} {
		if _, err := create(link, force, nil); err == nil {
			t.Errorf("with --force %v it follows a link", force)
		}
	}
	before, err := os.Open(victim) // as its owner may hold it
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = before.Close() }()
	f, err := create(victim, true, nil)
	if err != nil {
		t.Fatal(err)
	}
	f.discard()
	if text, err := os.ReadFile(victim); err != nil || string(text) != "precious" {
		t.Errorf("%q, %v", text, err)
	}
	if f, err = create(victim, true, nil); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.keep(), f.write(line{Type: typeRecording}), f.close()); err != nil {
		t.Error(err)
	}
	if info, err := os.Stat(victim); err != nil || info.Mode().Perm() != 0o600 || info.Size() == 0 {
		t.Errorf("%v, %v", info, err)
	}
	if text, err := io.ReadAll(before); err != nil || string(text) != "precious" {
		t.Errorf("who had the file open reads %q, %v", text, err)
	}
	if names, err := os.ReadDir(dir); err != nil || len(names) != 2 {
		t.Errorf("%v, %v", names, err)
	}
}

// What was flushed is there if informd is killed then.
func TestFlush(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "r.gz")
	f, err := create(path, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	for n := range 3 {
		if err := f.write(line{Type: typeListed}); err != nil {
			t.Fatal(err)
		}
		if err := f.flush(); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if got, _, err := readAll(t, bytes.NewReader(text)); err != nil || len(got) != n+1 {
			t.Errorf("%v, %v", got, err)
		}
	}
	f.discard()
	if _, err := os.Stat(path); err == nil {
		t.Error("a file that was discarded is there")
	}
}
